// Taking over: at the start, and again when nobody can say whether a commit happened, all running runs are compared
// with what runs. Owns when that is done and that nothing is started meanwhile; recovery.ts says what it means.
import { stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import { isDamage } from './damaged-runs.ts';
import { describeError } from './log.ts';
import { forEachRunningRun, type RecoveryOptions, recoverRun } from './recovery.ts';
import type { RunDeadlines } from './run-deadlines.ts';
import type { StartsPort } from './starts.ts';

export type TakeOverOptions = RecoveryOptions & {
  readonly starts: StartsPort;
  readonly deadlines: RunDeadlines;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly drives: boolean;
};

/** One that is damaged is set aside, and keeps nobody from looking at the others. */
function passDamage(error: unknown): void {
  if (!isDamage(error)) {
    throw error;
  }
}

export class TakeOver {
  readonly #options: TakeOverOptions;
  #state: 'opening' | 'open' | 'looking' | 'closed' = 'opening';
  /** A commit became doubtful since the last look began. */
  #isDoubtful = false;
  #cancelAgain: CancelAlarm | null = null;

  constructor(options: TakeOverOptions) {
    this.#options = options;
  }

  /** Settles or takes over every attempt that an earlier process left. Throws what the storage throws. */
  async run(): Promise<void> {
    do {
      this.#isDoubtful = false;
      await forEachRunningRun(this.#options, (runId) => this.recover(runId));
    } while (this.#isDoubtful && this.#state !== 'closed');
  }

  /** The same for one run; a run that is unknown is no error. */
  async recover(runId: string): Promise<void> {
    const { deadlines, drives } = this.#options;
    await recoverRun(this.#options, runId, (run) => {
      if (drives) {
        deadlines.hold(run);
      }
    });
  }

  /** From now on what is ready is started. */
  finish(): void {
    if (this.#state !== 'closed') {
      this.#state = 'open';
      this.#options.starts.open();
      this.#lookLater(limits.undecidedLookMsMin);
    }
  }

  /** What could not be decided may be later: a stranger ends, a file can be read again. Ever more rarely. */
  #lookLater(delayMs: number): void {
    const { attempts, clock, alarm, log } = this.#options;
    this.#cancelAgain?.();
    if (attempts.undecidedRuns().size === 0) {
      return;
    }
    this.#cancelAgain = alarm.set(clock.observe().uptimeMs + delayMs, () => {
      const looks = [...attempts.undecidedRuns()].map((runId) => this.recover(runId).catch(passDamage));
      Promise.all(looks).then(
        () => this.#state === 'open' && this.#lookLater(Math.min(2 * delayMs, limits.undecidedLookMsMax)),
        (error: unknown) => {
          stopOnDefect(error);
          log(`what could not be decided was not looked at again: ${describeError(error)}`);
        },
      );
    });
  }

  /**
   * The storage has failed in a commit and works again: what that turn would have begun was not begun, what it would
   * have stopped was not stopped. A start among them is taken back like one that a dead process left.
   */
  doubt(): void {
    this.#isDoubtful = true;
    if (this.#state === 'open' && this.#options.drives) {
      this.#options.log('the storage failed in a commit: what runs is compared with what is durable');
      this.#lookAgain();
    }
  }

  #lookAgain(): void {
    const { starts, clock, alarm, log } = this.#options;
    starts.close();
    this.#state = 'looking';
    this.run().then(
      () => this.finish(),
      (error: unknown) => {
        stopOnDefect(error);
        if (this.#state !== 'closed') {
          log(`what runs cannot be looked at yet: ${describeError(error)}`);
          const againMs = clock.observe().uptimeMs + limits.redeliveryMs;
          this.#cancelAgain = alarm.set(againMs, () => this.#lookAgain());
        }
      },
    );
  }

  close(): void {
    this.#state = 'closed';
    this.#cancelAgain?.();
  }
}
