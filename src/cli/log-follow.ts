// `runs logs --follow`: prints what the attempts of a run write while they write it, until the run, the step or the one
// attempt that was asked for has ended. Woken by the kernel, by changes in the data directory (commits, of whichever
// process) and in the directories of attempts; it looks by itself where the kernel has no watch left to give, and ever
// more rarely behind a change.
//
// A look: directories first, then the database, then what there is to print, so that the end of an attempt is only
// believed with all of its output at hand.
import type { AdmissionEvidence } from '../core/admission.ts';
import { limits } from '../core/limits.ts';
import type { CancelAlarm } from '../core/ports.ts';
import { isTerminalAttempt, isTerminalRun, isTerminalStep } from '../core/states.ts';
import type { OutputSource } from '../executor/output.ts';
import { read } from '../protocol/reads.ts';
import { inspectRun, type RunInspection } from '../runtime/inspection.ts';
import { openKept } from '../runtime/kept-file.ts';
import { artifactsDirectory } from './attempt-outputs.ts';
import type { Context } from './command.ts';
import { type DirectoryWatch, watchDirectory } from './directory-watch.ts';
import { exitCodes } from './failure.ts';
import { findOutput } from './found-output.ts';
import { LiveOutputs } from './live-outputs.ts';
import { entryOf, entryText, type LogEntry, type Selection, selectEntries } from './log-entry.ts';
import { createLinesPrinter } from './log-json.ts';
import { findPart, type LogPart, readPieces } from './log-part.ts';
import { createRawPrinter, createTextPrinter, type LogPrinter } from './log-printer.ts';
import { showOutput } from './log-show.ts';
import { neutralize } from './plain-text.ts';
import { hintRunId } from './run-id.ts';
import { readInspection } from './runs-show.ts';
import { pause, readSettingsToLook, runDirectoryFor } from './session.ts';
import { nameLimit } from './step-state.ts';
import type { Reader } from './storage.ts';

export type Following = {
  readonly reader: Reader;
  readonly runId: string;
  readonly selection: Selection;
  /** Of what there is when it begins; what comes later is shown whole. */
  readonly part: LogPart;
  readonly isRaw: boolean;
};

/** Between two looks at the least: a command that writes without end wakes without end. */
const paceMs = 50;
/** Between two looks where nothing wakes. */
const lookAgainMs = 1_000;
/** From a change in the data directory to the next look; each is twice as long as the one before. */
const afterChangeMsMin = 100;

/** Returns when nothing more can come, or at a signal, which leaves the run alone. */
export async function followLogs(context: Context, following: Following): Promise<number> {
  const left = Promise.withResolvers<void>();
  let isLeft = false;
  const stopListening = context.onSignal(() => {
    isLeft = true;
    left.resolve();
    // A second signal does what it does by default.
    stopListening();
  });
  const follower = await LogFollower.open(context, following);
  try {
    while (!isLeft && !(await follower.look())) {
      await Promise.race([left.promise, follower.woken()]);
      await Promise.race([left.promise, pause(context, paceMs)]);
    }
  } finally {
    stopListening();
    follower.close();
  }
  if (isLeft) {
    context.output.note(`run ${hintRunId(following.runId)} goes on`);
  }
  return isLeft ? exitCodes.interrupted : exitCodes.done;
}

class LogFollower {
  readonly #context: Context;
  readonly #following: Following;
  readonly #printer: LogPrinter;
  readonly #live: LiveOutputs;
  readonly #dataWatch: DirectoryWatch | 'missing' | 'refused';
  /** Where in its output each attempt is that was begun. */
  readonly #offsets = new Map<string, number>();
  readonly #done = new Set<string>();
  /** Those that there were when it began. */
  readonly #initial = new Set<string>();
  readonly #admission: AdmissionEvidence | null;
  #inspection: RunInspection;
  #runDirectory = '';
  #isSetAside = false;
  #isStale = true;
  #isFirst = true;
  #isAloneTold = false;
  #wake = Promise.withResolvers<void>();
  #afterChangeMs = afterChangeMsMin;
  #cancelAfterChange: CancelAlarm | null = null;

  static async open(context: Context, following: Following): Promise<LogFollower> {
    const { reader, runId } = following;
    const admission = await reader.read(read('admissionOfRun', { runId }));
    return new LogFollower(context, following, { admission, inspection: await readInspection(reader, runId) });
  }

  private constructor(
    context: Context,
    following: Following,
    { admission, inspection }: { readonly admission: AdmissionEvidence | null; readonly inspection: RunInspection },
  ) {
    this.#context = context;
    this.#following = following;
    this.#admission = admission;
    this.#inspection = inspection;
    this.#printer = this.#createPrinter();
    this.#live = new LiveOutputs(() => this.#wake.resolve());
    this.#dataWatch = watchDirectory(context.data, () => {
      this.#cancelAfterChange?.();
      this.#cancelAfterChange = null;
      this.#afterChangeMs = afterChangeMsMin;
      this.#readAgain();
    });
  }

  #readAgain(): void {
    this.#isStale = true;
    this.#wake.resolve();
  }

  /** The kernel tells of a commit that is being written; that it can be read from then on, nobody tells. */
  #lookAfterChange(): void {
    const { alarm, clock } = this.#context;
    this.#cancelAfterChange ??= alarm.set(clock.observe().uptimeMs + this.#afterChangeMs, () => {
      this.#cancelAfterChange = null;
      this.#afterChangeMs = Math.min(2 * this.#afterChangeMs, limits.alarmMsMax);
      this.#readAgain();
    });
  }

  #createPrinter(): LogPrinter {
    const { output } = this.#context;
    const { isRaw, selection } = this.#following;
    if (output.isJson) {
      return createLinesPrinter(output);
    }
    const isShared = () => this.#offsets.size > 1;
    const hasHeadings = selection.stepKey === null;
    return isRaw ? createRawPrinter(output) : createTextPrinter(output, { hasHeadings, isShared });
  }

  /** Prints what there is. True when nothing more can come. */
  async look(): Promise<boolean> {
    this.#wake = Promise.withResolvers<void>();
    const { data, storage } = this.#context;
    const holder = await storage.readHolder(data);
    this.#runDirectory = runDirectoryFor(this.#context, holder);
    this.#live.look(this.#runDirectory);
    if (this.#isStale || this.#isBlind() || this.#live.hasUndecided()) {
      await this.#readRun();
    }
    const entries = this.#selectAll();
    this.#live.settle(new Set(entries.map(({ attempt }) => attempt.id)));
    for (const entry of entries.filter(({ attempt }) => !this.#done.has(attempt.id))) {
      await this.#show(entry);
    }
    this.#isFirst = false;
    const isOver = this.#isOver();
    if (holder === null && !isOver && this.#context.shared === null) {
      this.#tellAlone();
    }
    return isOver;
  }

  woken(): Promise<void> {
    this.#lookAfterChange();
    return this.#isBlind() ? Promise.race([this.#wake.promise, pause(this.#context, lookAgainMs)]) : this.#wake.promise;
  }

  #isBlind(): boolean {
    const isElsewhere = this.#context.shared !== null;
    return isElsewhere || typeof this.#dataWatch === 'string' || this.#live.isBlind();
  }

  async #readRun(): Promise<void> {
    const { reader, runId } = this.#following;
    this.#isStale = false;
    const rows = await reader.read(read('wholeRun', { runId }));
    if (rows !== null && this.#admission !== null) {
      this.#inspection = inspectRun(rows, this.#admission);
    }
    this.#isSetAside = (await reader.read(read('setAside', { runId }))) !== null;
  }

  /** Of the attempts that are asked for, those that matter: at first the last of each step, then all that follow. */
  #selectAll(): readonly LogEntry[] {
    const { selection } = this.#following;
    const { steps } = this.#inspection;
    if (selection.ordinal !== null) {
      return selectEntries(this.#inspection, selection);
    }
    const chosen = steps.filter(({ stepKey }) => selection.stepKey === null || stepKey === selection.stepKey);
    const entries = chosen.flatMap((step) => step.attempts.flatMap((_attempt, index) => entryOf(step, index + 1)));
    if (this.#isFirst) {
      const last = new Set(selectEntries(this.#inspection, selection).map(({ attempt }) => attempt.id));
      for (const { attempt } of entries) {
        (last.has(attempt.id) ? this.#initial : this.#done).add(attempt.id);
      }
    }
    return entries.sort((one, other) => one.attempt.number - other.attempt.number);
  }

  async #show(entry: LogEntry): Promise<void> {
    const { attempt } = entry;
    const source = this.#live.find(attempt.id);
    const isEnded = isTerminalAttempt(attempt.status);
    if (source !== null) {
      await this.#print(entry, source);
    }
    if (!isEnded) {
      return;
    }
    if (this.#offsets.has(attempt.id)) {
      await this.#finish(entry, source);
    } else {
      await this.#showEnded(entry);
    }
    this.#done.add(attempt.id);
    this.#offsets.delete(attempt.id);
    this.#live.drop(attempt.id);
  }

  /** What an attempt has written that was not printed yet. */
  async #print(entry: LogEntry, source: OutputSource): Promise<void> {
    const { id } = entry.attempt;
    let offset = this.#offsets.get(id);
    if (offset === undefined) {
      if (source.look().totalBytes === 0) {
        return;
      }
      offset = this.#beginningOf(id, source);
      this.#printer.begin(entry, { source: 'live', remark: null, offset });
      this.#offsets.set(id, offset);
    }
    this.#offsets.set(id, await this.#printFrom(entry, source, offset));
  }

  #beginningOf(attemptId: string, source: OutputSource): number {
    const { part, isRaw } = this.#following;
    if (!this.#initial.has(attemptId)) {
      return 0;
    }
    return part.kind === 'from' ? part.offset : findPart(source, part, { isRaw }).start;
  }

  /** Up to what is there now: a command may write faster than whoever reads. */
  async #printFrom(entry: LogEntry, source: OutputSource, start: number): Promise<number> {
    const printer = this.#printer;
    let lost = 0;
    const end = await readPieces(
      source,
      { start, end: source.look().keptEnd },
      {
        async bytes(offset, bytes) {
          if (lost > 0) {
            printer.missing(entry, { offset: offset - lost, bytes: lost, why: 'left-out' });
            lost = 0;
          }
          await printer.bytes(entry, { offset, bytes });
        },
        missing: (_offset, count) => {
          lost += count;
        },
      },
    );
    // What was dropped goes on, perhaps: told with what comes behind it.
    return end - lost;
  }

  /** The end of an attempt whose output was followed: what was kept fills what was not read in time. */
  async #finish(entry: LogEntry, source: OutputSource | null): Promise<void> {
    const { id, outputBytes } = entry.attempt;
    const { data } = this.#context;
    let offset = this.#offsets.get(id) ?? 0;
    const state = source?.look() ?? null;
    const total = outputBytes ?? state?.totalBytes ?? offset;
    const kept =
      offset < total ? openKept(artifactsDirectory(data), { runId: this.#following.runId, attemptId: id }) : null;
    if (kept?.kind === 'found') {
      offset = await this.#printFrom(entry, kept.source, offset);
      kept.source.close();
    }
    if (offset < total) {
      const why = state !== null && state.keptEnd === offset && state.thrownBytes > 0 ? 'lost' : 'gone';
      this.#printer.missing(entry, { offset, bytes: total - offset, why });
    }
    this.#printer.end(entry, total);
    this.#tellEnd(entry);
  }

  #tellEnd(entry: LogEntry): void {
    const { output } = this.#context;
    const { status, errorSummary } = entry.attempt;
    if (!output.isJson && status !== 'succeeded') {
      output.note(neutralize(`${entryText(entry)}${errorSummary === null ? '' : `: ${nameLimit(errorSummary)}`}`));
    }
  }

  /** An attempt of whose output nothing was seen while it ran. */
  async #showEnded(entry: LogEntry): Promise<void> {
    const { runId, isRaw } = this.#following;
    const { settings } = await readSettingsToLook(this.#context, this.#following.reader);
    const { data, shared } = this.#context;
    const places = { data, runDirectory: this.#runDirectory, settings, isShared: shared !== null };
    const found = findOutput(places, runId, entry.attempt);
    const part = this.#initial.has(entry.attempt.id) ? this.#following.part : ({ kind: 'all' } as const);
    await showOutput(this.#printer, { entry, found, part, isRaw });
  }

  #isOver(): boolean {
    const { selection } = this.#following;
    const { run, steps } = this.#inspection;
    const isRunOver = this.#isSetAside || isTerminalRun(run.status);
    if (selection.ordinal !== null) {
      const [entry] = selectEntries(this.#inspection, selection);
      return isRunOver || entry === undefined || this.#done.has(entry.attempt.id);
    }
    const step = steps.find(({ stepKey }) => stepKey === selection.stepKey);
    return isRunOver || (step !== undefined && isTerminalStep(step.status));
  }

  /** Nothing goes wrong, but it may look so. */
  #tellAlone(): void {
    const { output, self } = this.#context;
    if (!this.#isAloneTold) {
      this.#isAloneTold = true;
      output.note(`nobody holds the directory: nothing more starts until \`${self} serve\``);
    }
  }

  close(): void {
    this.#cancelAfterChange?.();
    this.#printer.close();
    this.#live.close();
    if (typeof this.#dataWatch !== 'string') {
      this.#dataWatch.stop();
    }
  }
}
