// One attempt from its launch (or adoption) to its end: waits for events, looks, signals, and reports the end once.
//
//   launching ──spawn──▶ launcher alive ──its exit, or end of `alive`──▶ launcher gone ──look until over──▶ end
//       └──spawn failed──▶ end                 no `taken` ──▶ end             (pump's end, alarms of look.ts)
//
// Between two events there is no timer, no polling and no system call: the exit of a child or the end of a FIFO wakes
// it.
import type { ChildProcess } from 'node:child_process';
import path from 'node:path';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import { type AttemptEnd, describeExit, describeLoss } from './attempt-end.ts';
import { readIdentity, readReceipt, readTakenState } from './attempt-files.ts';
import { type EvidenceInput, readProof, withdrawStart } from './evidence.ts';
import { watchFifo } from './fifo.ts';
import {
  describeLauncherFailure,
  describeSpawnError,
  isShortage,
  type LauncherSettings,
  spawnLauncher,
} from './launch.ts';
import { decideFirstLook, decideLook, type LookSignal } from './look.ts';
import {
  type ProcessRow,
  processKey,
  readProcess,
  type SessionView,
  signalGroup,
  signalProcess,
  viewSession,
} from './session.ts';

export type WatchContext = {
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly settings: LauncherSettings;
  readonly outputBytesMax: number;
};

export class AttemptWatch {
  readonly #context: WatchContext;
  readonly #directory: string;
  readonly #attemptId: string;
  readonly #onEnd: (end: AttemptEnd) => void;
  #child: ChildProcess | null = null;
  #spawnTries = 0;
  #isWaitingToSpawn = false;
  #goneAtMs: number | null = null;
  #killAtMs: number | null = null;
  #isForced = false;
  #isPumpDone = false;
  #isOver = false;
  #lookDelayMs: number | null = null;
  #seen: ReadonlySet<string> = new Set();
  readonly #told = new Set<string>();
  readonly #leftovers = new Set<string>();
  #cancelLook: CancelAlarm | null = null;
  #cancelWatch: (() => void) | null = null;

  constructor(
    context: WatchContext,
    attempt: { readonly directory: string; readonly attemptId: string; readonly onEnd: (end: AttemptEnd) => void },
  ) {
    this.#context = context;
    this.#directory = attempt.directory;
    this.#attemptId = attempt.attemptId;
    this.#onEnd = attempt.onEnd;
  }

  /** Spawns the launcher; its file `command` is there. */
  launch(): void {
    this.#isWaitingToSpawn = false;
    try {
      const child = spawnLauncher(this.#directory, this.#attemptId, this.#context.settings);
      // Node reports a failed spawn by `error`, and with some errors by throwing; `exit` comes only for what was
      // started.
      child.once('error', (error) => this.#failSpawn(error));
      child.once('exit', (status, signal) => this.#loseLauncher(`${signal ?? `status ${status}`}`));
      this.#child = child;
    } catch (error) {
      this.#failSpawn(error);
    }
  }

  /** Watches a launcher that another process has started and that has taken its start. */
  adopt(): void {
    this.#cancelWatch = watchFifo(path.join(this.#directory, 'alive'), () => this.#loseLauncher('gone'));
    if (this.#cancelWatch === null) {
      this.#loseLauncher('gone');
    }
  }

  /** Ends the attempt with what was found before any launch. */
  settle(end: AttemptEnd): void {
    if (this.#isOver) {
      return;
    }
    this.close();
    this.#onEnd(end);
  }

  /**
   * See `withdrawStart`. A launcher that does not notice (it is stopped) is ended after the time of an output drain.
   */
  withdraw(): 'withdrawn' | 'taken' | 'absent' {
    const outcome = withdrawStart(this.#directory);
    if (outcome === 'withdrawn') {
      this.#stopWithdrawn(limits.outputDrainMsMax);
    }
    return outcome;
  }

  /** TERM now, KILL after the grace, until nobody of the session is left. A later call can only shorten the grace. */
  stop(graceMs: number): void {
    const outcome = this.#tryWithdraw();
    if (outcome === 'withdrawn') {
      this.#stopWithdrawn(graceMs);
      return;
    }
    // Where not even a withdrawal can be written, TERM might be lost before the command's process has its defaults.
    this.#setKill(outcome === 'unwritable' ? 0 : graceMs);
    this.#sendTerm();
    this.#look();
  }

  /** Forgets the attempt without ending it; nothing of it keeps this process alive, and no end is reported any more. */
  close(): void {
    this.#isOver = true;
    this.#cancelLook?.();
    this.#cancelWatch?.();
    this.#child?.removeAllListeners();
    this.#child?.once('error', () => {});
    this.#child?.unref();
  }

  #tryWithdraw(): 'withdrawn' | 'taken' | 'absent' | 'unwritable' {
    try {
      return withdrawStart(this.#directory);
    } catch {
      return 'unwritable';
    }
  }

  #stopWithdrawn(killAfterMs: number): void {
    if (this.#isWaitingToSpawn) {
      this.settle({ kind: 'withdrawn' });
      return;
    }
    this.#setKill(killAfterMs);
    this.#look();
  }

  #setKill(afterMs: number): void {
    const atMs = this.#nowMs() + afterMs;
    this.#killAtMs = Math.min(this.#killAtMs ?? atMs, atMs);
    this.#lookDelayMs = null;
  }

  #nowMs(): number {
    return this.#context.clock.observe().uptimeMs;
  }

  #evidence(): EvidenceInput {
    const { clock, outputBytesMax } = this.#context;
    const { bootId } = clock.observe();
    return { directory: this.#directory, attemptId: this.#attemptId, bootId, outputBytesMax };
  }

  #failSpawn(error: unknown): void {
    if (this.#isOver) {
      return;
    }
    this.#child = null;
    if (!isShortage(error) || this.#spawnTries >= limits.spawnRetriesMax) {
      this.settle(describeSpawnError(error, this.#context.settings));
      return;
    }
    this.#isWaitingToSpawn = true;
    const delayMs = limits.spawnRetryMsMin * 2 ** this.#spawnTries;
    this.#spawnTries += 1;
    this.#cancelLook = this.#context.alarm.set(this.#nowMs() + delayMs, () => this.launch());
  }

  /** The launcher is certainly gone: by its exit, or because nobody holds `alive`. */
  #loseLauncher(what: string): void {
    if (this.#isOver) {
      return;
    }
    this.#child = null;
    this.#goneAtMs = this.#nowMs();
    this.#lookDelayMs = null;
    const hasReceipt = readReceipt(this.#directory, this.#attemptId) !== null;
    if (!hasReceipt) {
      const wasFree = readTakenState(this.#directory) === 'free';
      const outcome = this.#tryWithdraw();
      if (outcome === 'withdrawn' || (wasFree && outcome === 'unwritable')) {
        this.settle(wasFree ? describeLauncherFailure(this.#directory, what) : { kind: 'withdrawn' });
        return;
      }
    }
    this.#cancelWatch = watchFifo(path.join(this.#directory, 'pumping'), () => {
      this.#isPumpDone = true;
      this.#look();
    });
    this.#isPumpDone = this.#cancelWatch === null;
    const [nowMs, isPumpDone, killAtMs] = [this.#goneAtMs, this.#isPumpDone, this.#killAtMs];
    this.#lookAt(decideFirstLook({ hasReceipt, isPumpDone, killAtMs, nowMs }));
  }

  #view(): SessionView {
    const proof = readProof(this.#evidence(), this.#seen);
    if (proof !== null) {
      return viewSession(proof);
    }
    // A launcher that has not come to its identity: as its parent, we hold its pid.
    const pid = this.#child?.pid;
    return { others: [], launcher: pid === undefined ? null : readProcess(pid), pump: [], unproven: [] };
  }

  #lookAt(uptimeMs: number): void {
    this.#cancelLook?.();
    this.#cancelLook = null;
    if (uptimeMs <= this.#nowMs()) {
      this.#look();
    } else {
      this.#cancelLook = this.#context.alarm.set(uptimeMs, () => this.#look());
    }
  }

  #look(): void {
    if (this.#isOver) {
      return;
    }
    this.#cancelLook?.();
    this.#cancelLook = null;
    const view = this.#view();
    this.#seen = new Set(view.others.map(processKey));
    const decision = decideLook({
      launcher: this.#goneAtMs === null ? 'alive' : 'gone',
      hasReceipt: readReceipt(this.#directory, this.#attemptId) !== null,
      othersCount: view.others.length,
      unprovenCount: view.unproven.length,
      isPumpDone: this.#isPumpDone,
      nowMs: this.#nowMs(),
      goneAtMs: this.#goneAtMs,
      killAtMs: this.#killAtMs,
      untoldCount: this.#untold(view).length,
      lookDelayMs: this.#lookDelayMs,
    });
    this.#lookDelayMs = decision.lookDelayMs;
    if (decision.signal !== null) {
      this.#send(decision.signal, view);
    }
    if (decision.isOver) {
      this.#finish(view.others.length);
    } else if (decision.nextLookMs !== null) {
      this.#cancelLook = this.#context.alarm.set(decision.nextLookMs, () => this.#look());
    }
  }

  #send(signal: LookSignal, { others, launcher, pump }: SessionView): void {
    if (signal === 'kill-pump') {
      signalAll(pump, 'SIGKILL');
      return;
    }
    if (this.#killAtMs === null) {
      for (const row of others) {
        this.#leftovers.add(processKey(row));
      }
    }
    if (signal === 'term-untold') {
      this.#tell(this.#untold({ others }));
      return;
    }
    this.#isForced ||= others.length > 0 || signal === 'kill-everyone';
    signalAll(others, 'SIGKILL');
    if (signal === 'kill-everyone') {
      if (launcher !== null) {
        signalGroup(launcher, 'SIGKILL');
      }
      signalAll([...others, ...pump], 'SIGKILL');
    }
  }

  #untold({ others }: Pick<SessionView, 'others'>): ProcessRow[] {
    return others.filter((row) => row.diesOfTerm || !this.#told.has(processKey(row)));
  }

  #tell(rows: readonly ProcessRow[]): void {
    signalAll(rows, 'SIGTERM');
    for (const row of rows) {
      this.#told.add(processKey(row));
    }
  }

  #sendTerm(): void {
    const { launcher, others } = this.#view();
    if (launcher === null) {
      this.#tell(others);
      return;
    }
    // One call for the whole group, whatever it forks meanwhile. Launcher and pump expect it.
    signalGroup(launcher, 'SIGTERM');
    const inGroup = others.filter((row) => row.groupId === launcher.groupId);
    for (const row of inGroup) {
      this.#told.add(processKey(row));
    }
    this.#tell(others.filter((row) => !inGroup.includes(row)));
  }

  #finish(survivorsCount: number): void {
    const { directory, attemptId, outputBytesMax } = this.#evidence();
    const receipt = readReceipt(directory, attemptId);
    const ending = { isForced: this.#isForced, leftoversCount: this.#leftovers.size, survivorsCount };
    const startUptimeMs = readIdentity(directory, attemptId)?.uptimeMs ?? receipt?.endUptimeMs ?? 0;
    this.settle(
      receipt === null
        ? describeLoss('its launcher ended without a receipt', ending)
        : describeExit({ directory, attemptId, startUptimeMs, outputBytesMax, ending }, receipt),
    );
  }
}

function signalAll(rows: readonly ProcessRow[], signal: NodeJS.Signals): void {
  for (const row of rows) {
    signalProcess(row, signal);
  }
}
