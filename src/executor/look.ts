// What to do with an attempt that is ending, as a pure decision over what one look at its session showed. Signals,
// times and order are decided here and nowhere else.
//
// A command that ends by itself: whoever it left in its session has half of the output drain (1 s) undisturbed, then
// gets TERM, and at the end of the drain (2 s) KILL; then the attempt ends, so that no retry runs beside the leftovers
// of the try before. A stop: TERM at once (by `stop`), KILL after the grace, and the attempt ends only when nobody is
// left. A stop that comes when the command has ended already hastens that drain, and never makes it longer.
// A process that is just being forked by a shell with a trap loses a TERM: looks repeat it, to those that would
// have died of it. KILL spares launcher and pump for half a second, so that the command's true end and its last output
// are recorded. Who was stopped is woken on the way (by attempt-watch), or it could do neither.
import { limits } from '../core/limits.ts';

export type LookInput = {
  /** `gone`: with a receipt the command has ended; without one (the launcher was killed) it may still run. */
  readonly launcher: 'alive' | 'gone';
  /** Its end comes as an event; otherwise it has to be looked for. */
  readonly isLauncherWatched: boolean;
  readonly hasReceipt: boolean;
  readonly othersCount: number;
  readonly unprovenCount: number;
  /** Nobody is said to be left though somebody was seen before, while processes were started all the time. */
  readonly isDoubtful: boolean;
  readonly isPumpDone: boolean;
  readonly nowMs: number;
  /** When the launcher was found gone; null while it lives. */
  readonly goneAtMs: number | null;
  /** When the grace of a stop ends; null without one. */
  readonly killAtMs: number | null;
  /** It came after the command's own end. */
  readonly isStopLate: boolean;
  /** Others that were sent no TERM, or have missed it. */
  readonly untoldCount: number;
  /** The distance to the look before, for back-off; null before the first. */
  readonly lookDelayMs: number | null;
};

export type LookSignal = 'term-untold' | 'kill-others' | 'kill-everyone' | 'kill-pump';

export type LookDecision = {
  readonly signal: LookSignal | null;
  readonly isOver: boolean;
  /** Null: nothing is to be looked at before something happens. */
  readonly nextLookMs: number | null;
  readonly lookDelayMs: number | null;
};

const quiet: LookDecision = { signal: null, isOver: false, nextLookMs: null, lookDelayMs: null };

/** The next step for an attempt. Uptimes in ms; the answer is complete: no other look is due. */
export function decideLook(input: LookInput): LookDecision {
  if (input.launcher === 'alive' || input.goneAtMs === null) {
    return decideWithLauncher(input);
  }
  const drainEndMs = input.goneAtMs + limits.outputDrainMsMax;
  if (input.othersCount > 0) {
    return decideLeftovers(input, input.goneAtMs, drainEndMs);
  }
  // One that is just executing something shows no proof. If there is none until all is over, then after a receipt the
  // session is none of ours; without one it might be the command.
  const isLast = input.hasReceipt && input.nowMs >= drainEndMs + limits.killEscalationMs;
  if ((input.unprovenCount > 0 || input.isDoubtful) && !isLast) {
    const isSoon = input.hasReceipt || input.isDoubtful;
    const isKill = input.hasReceipt && input.nowMs >= killTimeOf(input, drainEndMs);
    const later = lookLater(input, isSoon ? limits.sessionLookMsMin : limits.orphanLookMsMin);
    return { ...later, signal: isKill ? 'kill-others' : null };
  }
  if (input.isPumpDone || input.nowMs >= drainEndMs) {
    // A pump that a process holds which escaped ends with the attempt; whoever still writes to it gets SIGPIPE.
    return { ...quiet, isOver: true, signal: input.isPumpDone ? null : 'kill-pump' };
  }
  // A pump that was stopped is woken by a look, and has the other half of the drain then.
  const halfMs = input.goneAtMs + limits.outputDrainMsMax / 2;
  return { ...quiet, nextLookMs: input.nowMs < halfMs ? halfMs : drainEndMs };
}

/**
 * When a session whose launcher has just gone is looked at first, if nothing happens before: a look reads all of /proc,
 * and the usual command has nobody left when its pump ends a moment later.
 */
export function decideFirstLook(input: Pick<LookInput, 'hasReceipt' | 'isPumpDone' | 'killAtMs' | 'nowMs'>): number {
  const isUsual = input.hasReceipt && input.killAtMs === null && !input.isPumpDone;
  return isUsual ? input.nowMs + limits.outputDrainMsMax / 2 : input.nowMs;
}

function decideWithLauncher(input: LookInput): LookDecision {
  const { nowMs, killAtMs } = input;
  if (killAtMs === null) {
    return input.isLauncherWatched ? quiet : lookLater(input, limits.orphanLookMsMin);
  }
  if (nowMs < killAtMs) {
    return waitForTerm(input, killAtMs);
  }
  const escalateAtMs = killAtMs + limits.killEscalationMs;
  if (nowMs < escalateAtMs) {
    // More than once: what the launcher was just sent by the command may have stopped it after the look before.
    const later = lookLater(input, limits.sessionLookMsMin);
    return { ...later, signal: 'kill-others', nextLookMs: Math.min(escalateAtMs, later.nextLookMs ?? escalateAtMs) };
  }
  const delayMs = double(input.lookDelayMs, limits.killEscalationMs);
  return { ...quiet, signal: 'kill-everyone', nextLookMs: nowMs + delayMs, lookDelayMs: delayMs };
}

function decideLeftovers(input: LookInput, goneAtMs: number, drainEndMs: number): LookDecision {
  const { nowMs, hasReceipt } = input;
  const isStop = input.killAtMs !== null && !input.isStopLate;
  if (!isStop && !hasReceipt) {
    return lookLater(input, limits.orphanLookMsMin);
  }
  const killAtMs = killTimeOf(input, drainEndMs);
  if (!isStop && nowMs >= killAtMs + limits.killEscalationMs) {
    // Its own end is known; what KILL does not end (it waits in the kernel) is reported, and does not hold the attempt.
    return { ...quiet, isOver: true, signal: 'kill-everyone' };
  }
  if (nowMs >= killAtMs) {
    return { ...lookLater(input, limits.sessionLookMsMin), signal: 'kill-others' };
  }
  const termAtMs = input.killAtMs !== null ? nowMs : goneAtMs + limits.outputDrainMsMax / 2;
  if (nowMs < termAtMs) {
    return { ...quiet, nextLookMs: Math.min(termAtMs, killAtMs) };
  }
  return waitForTerm(input, killAtMs);
}

function killTimeOf({ killAtMs, isStopLate }: LookInput, drainEndMs: number): number {
  return killAtMs !== null && !isStopLate ? killAtMs : Math.min(killAtMs ?? drainEndMs, drainEndMs);
}

function waitForTerm(input: LookInput, killAtMs: number): LookDecision {
  const later = lookLater(input, limits.sessionLookMsMin);
  const nextLookMs = Math.min(killAtMs, later.nextLookMs ?? killAtMs);
  return { ...later, signal: input.untoldCount > 0 ? 'term-untold' : null, nextLookMs };
}

function lookLater({ nowMs, lookDelayMs }: LookInput, startMs: number): LookDecision {
  const delayMs = double(lookDelayMs, startMs);
  return { ...quiet, nextLookMs: nowMs + delayMs, lookDelayMs: delayMs };
}

function double(delayMs: number | null, startMs: number): number {
  return delayMs === null ? startMs : Math.min(limits.orphanLookMsMax, Math.max(startMs, delayMs * 2));
}
