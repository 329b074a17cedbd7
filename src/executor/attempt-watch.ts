// One attempt from its launch (or adoption) to its end: waits for events, looks, signals, and reports the end once.
//
//   launching ──spawn──▶ launcher alive ──its exit, or end of `alive`──▶ launcher gone ──look until over──▶ end
//       └──spawn failed──▶ end                 no `taken` ──▶ end             (pump's end, alarms of look.ts)
//
// Between two events there is no timer, no polling and no system call: the exit of a child or the end of a FIFO wakes
// it. (An adopted launcher without FIFOs is looked for, after 1 s, doubling to 30 s.)
//
// A look or a spawn that only failed for want of descriptors, processes or memory is made again later; it never counts
// as an answer.
import type { ChildProcess } from 'node:child_process';
import path from 'node:path';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import { type AttemptEnd, describeExit, describeLoss } from './attempt-end.ts';
import { readIdentity, readReceipt, readTakenState } from './attempt-files.ts';
import { AttemptSignals } from './attempt-signals.ts';
import { type EvidenceInput, endLauncher, readProof, withdrawStart } from './evidence.ts';
import { watchFifo } from './fifo.ts';
import { describeLauncherFailure, describeSpawnError, type LauncherSettings, spawnLauncher } from './launch.ts';
import { decideFirstLook, decideLook, type LookSignal } from './look.ts';
import type { SpawnFailure } from './preflight.ts';
import { processKey, readProcess, type SessionView, viewSession } from './session.ts';
import { isShortage } from './shortage.ts';

export type WatchContext = {
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly settings: LauncherSettings;
  readonly outputBytesMax: number;
};

const withdrawn: AttemptEnd = { kind: 'withdrawn' };

export class AttemptWatch {
  readonly #context: WatchContext;
  readonly #directory: string;
  readonly #attemptId: string;
  readonly #onEnd: (end: AttemptEnd) => void;
  #child: ChildProcess | null = null;
  #spawnTries = 0;
  #isWaitingToSpawn = false;
  #isAdopting = false;
  /** Its end comes as an event. */
  #isLauncherWatched = true;
  #goneAtMs: number | null = null;
  #lostBy = '';
  /** What it is when the launcher turns out to have gone before the start was taken. */
  #unstarted: AttemptEnd | null = null;
  #isLossSettled = false;
  #killAtMs: number | null = null;
  /** TERM was sent. */
  #isTold = false;
  #isStopLate = false;
  #isPumpDone = false;
  #isOver = false;
  #lookDelayMs: number | null = null;
  #seen: ReadonlySet<string> = new Set();
  /** Somebody was seen when the launcher had gone. */
  #hasLeft = false;
  /** Looks in a row, the last one included, that met nobody. */
  #emptyLooksCount = 0;
  readonly #signals = new AttemptSignals();
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

  /** Spawns the launcher when `prepare` has made its work, or ends with what that answers. Both may be done again. */
  launch(prepare: () => SpawnFailure | null): void {
    this.#isWaitingToSpawn = false;
    const fail = (error: unknown) => this.#failSpawn(error, prepare);
    try {
      const failure = prepare();
      if (failure !== null) {
        this.settle(failure);
        return;
      }
      const child = spawnLauncher(this.#directory, this.#attemptId, this.#context.settings);
      // Node reports a failed spawn by `error`, and with some errors by throwing; `exit` comes only for what was
      // started.
      child.once('error', fail);
      child.once('exit', (status, signal) => this.#loseLauncher(`${signal ?? `status ${status}`}`));
      this.#child = child;
    } catch (error) {
      fail(error);
    }
  }

  /** Watches a launcher that another process has started and that has taken its start. */
  adopt(): void {
    this.#isAdopting = true;
    this.#look();
  }

  /** Ends the attempt with what was found before any launch. */
  settle(end: AttemptEnd): void {
    if (this.#isOver) {
      return;
    }
    this.close();
    this.#onEnd(end);
  }

  /** See `withdrawStart`. The launcher is ended: no command comes of it any more. */
  withdraw(): 'withdrawn' | 'taken' | 'absent' {
    const outcome = this.#isWaitingToSpawn ? 'withdrawn' : withdrawStart(this.#directory);
    if (outcome === 'withdrawn') {
      this.#endWithdrawn();
    }
    return outcome;
  }

  /** TERM now, KILL after the grace, until nobody of the session is left. A later call can only shorten the grace. */
  stop(graceMs: number): void {
    const outcome = this.#isWaitingToSpawn ? 'withdrawn' : this.#tryWithdraw();
    if (outcome === 'withdrawn') {
      this.#endWithdrawn();
      return;
    }
    this.#isStopLate ||= this.#killAtMs === null && this.#hasReceipt();
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

  /** False also where that cannot be told now. */
  #hasReceipt(): boolean {
    try {
      return readReceipt(this.#directory, this.#attemptId) !== null;
    } catch (error) {
      if (!isShortage(error)) {
        throw error;
      }
      return false;
    }
  }

  #endWithdrawn(): void {
    if (this.#isWaitingToSpawn) {
      this.settle(withdrawn);
      return;
    }
    // Nothing that it could still record is of any use.
    this.#setKill(-limits.killEscalationMs);
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

  #failSpawn(error: unknown, prepare: () => SpawnFailure | null): void {
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
    this.#cancelLook = this.#context.alarm.set(this.#nowMs() + delayMs, () => this.launch(prepare));
  }

  /** Begins to watch a launcher that is no child of this process. */
  #watchAdopted(): void {
    const lose = () => this.#loseLauncher('gone');
    this.#isLauncherWatched = readIdentity(this.#directory, this.#attemptId)?.pumpPid !== 0;
    this.#cancelWatch = this.#isLauncherWatched ? watchFifo(path.join(this.#directory, 'alive'), lose) : null;
    this.#isAdopting = false;
    if (this.#isLauncherWatched && this.#cancelWatch === null) {
      lose();
    }
  }

  /** The launcher is certainly gone: by its exit, because nobody holds `alive`, or because it was not found. */
  #loseLauncher(what: string): void {
    if (this.#isOver) {
      return;
    }
    this.#child = null;
    this.#goneAtMs = this.#nowMs();
    this.#lostBy = what;
    this.#lookDelayMs = null;
    this.#look();
  }

  /** True: no command ran, and none will. */
  #isUnstarted(): boolean {
    const state = readTakenState(this.#directory);
    if (state === 'taken') {
      return false;
    }
    this.#unstarted ??= state === 'free' ? describeLauncherFailure(this.#directory, this.#lostBy) : withdrawn;
    const outcome = this.#tryWithdraw();
    if (outcome !== 'withdrawn' && outcome !== 'unwritable') {
      return false;
    }
    endLauncher(this.#directory);
    // A child that has been sent KILL still creates a file, if it is just doing that; it execs nothing any more.
    return outcome === 'withdrawn' || readTakenState(this.#directory) === 'free';
  }

  #settleLoss(): void {
    const hasReceipt = readReceipt(this.#directory, this.#attemptId) !== null;
    if (!hasReceipt && this.#isUnstarted()) {
      this.settle(this.#unstarted ?? withdrawn);
      return;
    }
    this.#cancelWatch?.();
    this.#cancelWatch = watchFifo(path.join(this.#directory, 'pumping'), () => {
      this.#isPumpDone = true;
      this.#look();
    });
    this.#isPumpDone = this.#cancelWatch === null;
    this.#isLossSettled = true;
    const [nowMs, isPumpDone, killAtMs] = [this.#nowMs(), this.#isPumpDone, this.#killAtMs];
    this.#lookAt(decideFirstLook({ hasReceipt, isPumpDone, killAtMs, nowMs }));
  }

  #view(): SessionView {
    const proof = readProof(this.#evidence(), this.#seen);
    if (proof !== null) {
      return viewSession(proof);
    }
    // A launcher that has not come to its identity: as its parent, we hold its pid.
    const pid = this.#child?.pid;
    const launcher = pid === undefined ? null : readProcess(pid);
    return { others: [], launcher, pump: [], unproven: [], isCertain: true };
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

  /** Whatever is due now; a look that fails for a shortage is made again. */
  #look(): void {
    if (this.#isOver) {
      return;
    }
    this.#cancelLook?.();
    this.#cancelLook = null;
    try {
      this.#lookNow();
    } catch (error) {
      if (!isShortage(error)) {
        throw error;
      }
      this.#lookAt(this.#nowMs() + limits.shortageLookMs);
    }
  }

  #lookNow(): void {
    if (this.#isAdopting) {
      this.#watchAdopted();
      if (this.#goneAtMs !== null || (this.#isLauncherWatched && this.#killAtMs === null)) {
        return;
      }
    }
    if (this.#goneAtMs !== null && !this.#isLossSettled) {
      this.#settleLoss();
      return;
    }
    const view = this.#view();
    const hasReceipt = readReceipt(this.#directory, this.#attemptId) !== null;
    if (this.#goneAtMs === null && !this.#isLauncherWatched && (hasReceipt || view.launcher === null)) {
      this.#loseLauncher('gone');
      return;
    }
    const isEmpty = view.others.length === 0;
    this.#emptyLooksCount = isEmpty ? this.#emptyLooksCount + 1 : 0;
    this.#hasLeft ||= !isEmpty && this.#goneAtMs !== null;
    const isDoubtful = this.#hasLeft && isEmpty && !view.isCertain && this.#emptyLooksCount < limits.doubtfulLooksMax;
    this.#seen = new Set(view.others.map(processKey));
    const decision = decideLook({
      launcher: this.#goneAtMs === null ? 'alive' : 'gone',
      isLauncherWatched: this.#isLauncherWatched,
      hasReceipt,
      othersCount: view.others.length,
      unprovenCount: view.unproven.length,
      isDoubtful,
      isPumpDone: this.#isPumpDone,
      nowMs: this.#nowMs(),
      goneAtMs: this.#goneAtMs,
      killAtMs: this.#killAtMs,
      isStopLate: this.#isStopLate,
      untoldCount: this.#signals.untold(view).length,
      lookDelayMs: this.#lookDelayMs,
    });
    this.#lookDelayMs = decision.lookDelayMs;
    const isStop = this.#killAtMs !== null;
    if (decision.signal === 'kill-pump') {
      endLauncher(this.#directory);
    } else if (decision.signal !== null) {
      this.#send(decision.signal, view);
    }
    if (isStop || this.#goneAtMs !== null) {
      this.#signals.wakeRecorders(view);
    }
    if (decision.isOver) {
      this.#finish(view.others.length);
    } else if (decision.nextLookMs !== null) {
      this.#cancelLook = this.#context.alarm.set(decision.nextLookMs, () => this.#look());
    }
  }

  #send(signal: Exclude<LookSignal, 'kill-pump'>, view: SessionView): void {
    const isStop = this.#killAtMs !== null && !this.#isStopLate;
    this.#signals.send(signal, view, { isStop, proof: readProof(this.#evidence(), this.#seen) });
  }

  /**
   * Once: a command that clears up at TERM is not told again in the midst of it. Who comes later, and whom it misses
   * for a shortage, is told by the looks after it.
   */
  #sendTerm(): void {
    if (this.#isTold) {
      return;
    }
    try {
      this.#signals.sendTerm(this.#view());
      this.#isTold = true;
    } catch (error) {
      if (!isShortage(error)) {
        throw error;
      }
    }
  }

  #finish(survivorsCount: number): void {
    const { directory, attemptId, outputBytesMax } = this.#evidence();
    const receipt = readReceipt(directory, attemptId);
    const ending = this.#signals.describe(survivorsCount);
    const startUptimeMs = readIdentity(directory, attemptId)?.uptimeMs ?? receipt?.endUptimeMs ?? 0;
    this.settle(
      receipt === null
        ? describeLoss('its launcher ended without a receipt', ending)
        : describeExit({ directory, attemptId, startUptimeMs, outputBytesMax, ending }, receipt),
    );
  }
}
