// Sends what was decided to the processes of one attempt, and keeps account of who was told what, for its end. Decides
// nothing; session.ts sees to it that nobody else is signalled.
import type { Ending } from './attempt-end.ts';
import type { LookSignal } from './look.ts';
import {
  killNewest,
  type ProcessRow,
  processKey,
  type SessionProof,
  type SessionView,
  signalGroup,
  signalProcess,
} from './session.ts';

export class AttemptSignals {
  readonly #told = new Set<string>();
  readonly #leftovers = new Set<string>();
  #isForced = false;

  /** Others that were sent no TERM, or have missed it. */
  untold({ others }: SessionView): ProcessRow[] {
    return others.filter((row) => row.diesOfTerm || !this.#told.has(processKey(row)));
  }

  /** The TERM of a stop, to whoever there is. */
  sendTerm({ launcher, others }: SessionView): void {
    if (launcher === null) {
      this.#tell(others);
    } else {
      // One call for the whole group, whatever it forks meanwhile. Launcher and pump expect it.
      signalGroup(launcher, 'SIGTERM');
      const inGroup = others.filter((row) => row.groupId === launcher.groupId);
      for (const row of inGroup) {
        this.#told.add(processKey(row));
      }
      this.#tell(others.filter((row) => !inGroup.includes(row)));
    }
    wake(others);
  }

  /** `isStop`: on somebody's order; otherwise the command has ended, and whom it left behind is counted. */
  send(
    signal: Exclude<LookSignal, 'kill-pump'>,
    view: SessionView,
    { isStop, proof }: { readonly isStop: boolean; readonly proof: SessionProof | null },
  ): void {
    const { others, launcher, pump } = view;
    this.#count(others, isStop);
    if (signal === 'term-untold') {
      this.#tell(this.untold(view));
      wake(others);
      return;
    }
    signalAll(others, 'SIGKILL');
    const newest = proof === null ? [] : killNewest(proof);
    this.#count(newest, isStop);
    this.#isForced ||= others.length > 0 || newest.length > 0 || signal === 'kill-everyone';
    if (signal === 'kill-everyone') {
      if (launcher !== null) {
        signalGroup(launcher, 'SIGKILL');
      }
      signalAll([...others, ...pump], 'SIGKILL');
    }
  }

  /** Launcher and pump must not stand still when an end is to be recorded. */
  wakeRecorders({ launcher, pump }: SessionView): void {
    wake(launcher === null ? pump : [launcher, ...pump]);
  }

  describe(survivorsCount: number): Ending {
    return { isForced: this.#isForced, leftoversCount: this.#leftovers.size, survivorsCount };
  }

  /** Of an attempt that nobody stops, they have outlived the command. */
  #count(rows: readonly ProcessRow[], isStop: boolean): void {
    for (const row of isStop ? [] : rows) {
      this.#leftovers.add(processKey(row));
    }
  }

  #tell(rows: readonly ProcessRow[]): void {
    signalAll(rows, 'SIGTERM');
    for (const row of rows) {
      this.#told.add(processKey(row));
    }
  }
}

/** Who was stopped can neither obey TERM nor record an end. */
function wake(rows: readonly ProcessRow[]): void {
  signalAll(
    rows.filter((row) => row.isStopped),
    'SIGCONT',
  );
}

function signalAll(rows: readonly ProcessRow[], signal: NodeJS.Signals): void {
  for (const row of rows) {
    signalProcess(row, signal);
  }
}
