// Effects of a turn that is durable, in the order of its operations: starts, stops, ends, and the alarms that go with
// them. Owns which outcome has which effect; what an effect does is said where it is done.
import type { StartOutcome } from '../protocol/admit.ts';
import type { AdvanceOutcome } from '../protocol/advance.ts';
import type { CompleteOutcome, ObserveOutcome, RequestStopOutcome, StartAttemptOutcome } from '../protocol/attempt.ts';
import type { ConvergeOutcome } from '../protocol/cancel.ts';
import type { RetryOutcome } from '../protocol/retry.ts';
import type { Settled } from '../store/store.ts';
import type { Attempts } from './attempts.ts';

export type EffectPorts = {
  readonly attempts: Attempts;
  /** The longest grace of a stop, where this process is stopping everything; null while it is not. */
  readonly lastGraceMs: number | null;
  readonly runCreated: (runId: string) => void;
  readonly runEnded: (runId: string) => void;
};

/** Must not throw. Starts come before the stops that follow them, so that a stop finds what it stops. */
export function carryOut(settled: readonly Settled[], ports: EffectPorts): void {
  for (const { operation, outcome, runId } of settled) {
    switch (operation.name) {
      case 'start':
      case 'retry':
      case 'admit':
        createRun(outcome as StartOutcome | RetryOutcome, ports);
        break;
      case 'start-attempt':
        beginAttempt(outcome as StartAttemptOutcome, ports);
        break;
      case 'observe-attempt':
        ports.attempts.noteObserved((outcome as ObserveOutcome).attemptId);
        break;
      case 'request-stop':
        stopAttempt(outcome as RequestStopOutcome, ports);
        break;
      case 'complete':
        ports.attempts.release((outcome as CompleteOutcome).attemptId);
        break;
      case 'cancel':
        freeze(runId, ports);
        break;
      case 'converge':
        converge(outcome as ConvergeOutcome, ports);
        break;
      case 'advance':
        advance(outcome as AdvanceOutcome, ports);
        break;
      default:
    }
  }
}

function createRun(outcome: StartOutcome | RetryOutcome, { runCreated }: EffectPorts): void {
  if (outcome.kind === 'created') {
    runCreated(outcome.receipt.runId);
  }
}

function beginAttempt(outcome: StartAttemptOutcome, { attempts, lastGraceMs }: EffectPorts): void {
  if (outcome.kind === 'started') {
    attempts.begin(outcome.launch);
    if (lastGraceMs !== null) {
      // Its turn had been waiting for the storage when everything was told to stop.
      attempts.requestStop(outcome.launch.attemptId, 'shutdown');
    }
  }
}

function stopAttempt(outcome: RequestStopOutcome, { attempts, lastGraceMs }: EffectPorts): void {
  // What was being stopped before gets no more time than the end of the whole runtime leaves it.
  if (outcome.kind === 'requested' || (lastGraceMs !== null && outcome.isStopping)) {
    attempts.halt(outcome.attemptId, lastGraceMs ?? undefined);
  }
}

/**
 * The intent stops what runs by itself, before it is answered: on a full disk the convergence that follows it may be
 * owed. It names a run where it has written.
 */
function freeze(runId: string | null, { attempts, lastGraceMs }: EffectPorts): void {
  if (runId !== null) {
    attempts.haltRun(runId, lastGraceMs ?? undefined);
  }
}

function converge(outcome: ConvergeOutcome, { attempts, lastGraceMs, runEnded }: EffectPorts): void {
  for (const attemptId of outcome.blockingAttemptIds) {
    attempts.halt(attemptId, lastGraceMs ?? undefined);
  }
  if (outcome.kind === 'ended') {
    runEnded(outcome.runId);
  }
}

function advance(outcome: AdvanceOutcome, { runEnded }: EffectPorts): void {
  if (outcome.kind === 'terminal' || outcome.kind === 'settled') {
    runEnded(outcome.runId);
  }
}
