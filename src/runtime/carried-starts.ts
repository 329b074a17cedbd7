// Starts that go with what makes their steps ready, in one transaction: the end of a step and the start of the next
// cost one. Owns which slot such a start takes, and which runs only lack one; what may start is decided by the
// protocols.
import type { Run } from '../core/records.ts';
import { advance } from '../protocol/advance.ts';
import { type AdmitAttemptOutcome, admitAttempt, complete } from '../protocol/attempt.ts';
import { type Decision, type Operation, operation } from '../protocol/protocol.ts';
import type { StepPlace } from '../protocol/reads.ts';
import { type Carried, withFollowers } from './carried.ts';
import { withBarrier } from './cluster-claims.ts';
import type { Slots } from './slots.ts';
import type { StartsOptions } from './starts.ts';

export type CarriedStartsOptions = Pick<StartsOptions, 'handlerNames' | 'runDirectory' | 'executor'> & {
  readonly slots: Slots;
  /** Whether a step may start as far as is known here: its package is, and nothing keeps it back. */
  readonly mayStart: (run: Run, stepRunId: string) => boolean;
  /** There is no place for an attempt. */
  readonly onNoPlace: (error: unknown) => void;
  /** Slots may have become free. */
  readonly onOver: () => void;
};

export class CarriedStarts {
  readonly #options: CarriedStartsOptions;
  /** Runs that only lack a slot, as far as is known: one advance moves them on and starts what is ready. */
  readonly #slotless = new Set<string>();
  /** Advances that were made for such runs. */
  readonly #looks = new WeakSet<Operation>();

  constructor(options: CarriedStartsOptions) {
    this.#options = options;
  }

  noteSlotless(runId: string): void {
    this.#slotless.add(runId);
  }

  /** It is not held any more. */
  forget(runId: string): void {
    this.#slotless.delete(runId);
  }

  /**
   * The advance that starts what is ready of a run that only lacked a slot; null for any other run. Once: what it
   * leaves is to be looked at as of any other.
   */
  takeLook(runId: string): ReturnType<typeof advanceOf> | null {
    if (!this.#slotless.delete(runId)) {
      return null;
    }
    const look = advanceOf(runId);
    this.#looks.add(look);
    return look;
  }

  /** With the starts behind it, where it is an end or an advance; null where it is left as it is. */
  carry<O>(submitted: Operation<O>, runId: string): Carried<O> | null {
    const { slots, mayStart, onOver } = this.#options;
    const isLook = this.#looks.has(submitted);
    const isEnd = submitted.name === complete.name;
    if (!(isEnd || submitted.name === advance.name)) {
      return null;
    }
    // The one that an end leaves, or that was free for the look, is kept until it is over.
    const slot = slots.slotFor(runId);
    const started = new Set<string>();
    const letGo = () => {
      for (const stepRunId of started) {
        slots.end(stepRunId);
      }
      started.clear();
    };
    const begin = () => {
      letGo();
      if (isEnd || isLook) {
        slot.keep();
      }
    };
    begin();
    const operationWithStarts = withFollowers(submitted, {
      begin,
      next: (run, readyStepRunIds) =>
        readyStepRunIds.flatMap((stepRunId) => {
          if (!mayStart(run, stepRunId)) {
            return [];
          }
          // The first one takes the slot that is kept.
          if (!slot.take() && slots.free <= 0) {
            if (!isLook) {
              this.#slotless.add(runId);
            }
            return [];
          }
          started.add(stepRunId);
          return [this.#claim({ runId, stepRunId })];
        }),
    });
    return {
      operation: operationWithStarts,
      over: () => {
        letGo();
        slot.take();
        onOver();
      },
    };
  }

  /** Where there is no place for an attempt, nothing is claimed: an end must not wait for that. */
  #claim(place: StepPlace): Operation<AdmitAttemptOutcome> {
    const { slots, handlerNames, onNoPlace } = this.#options;
    const trouble: { place: unknown } = { place: null };
    slots.begin(place.stepRunId, place.runId);
    const uncounted = operation(admitAttempt, { ...place, handlerNames, busyOfWorkflow: 0 });
    const claim = withBarrier(uncounted, place, { ...this.#options, trouble });
    return {
      ...claim,
      decide: (rows, circumstances): Decision<AdmitAttemptOutcome> => {
        try {
          return claim.decide(rows, circumstances);
        } catch (error) {
          if (trouble.place === null || trouble.place !== error) {
            throw error;
          }
          onNoPlace(error);
          return { outcome: { kind: 'refused', reason: 'not-ready' } };
        }
      },
    };
  }
}

function advanceOf(runId: string) {
  return operation(advance, { runId });
}
