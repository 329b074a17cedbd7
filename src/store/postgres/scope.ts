// What an operation is about, told from the reads that it names: that decides what it must not overtake, and how it is
// kept apart from others.
//
// An operation of one run locks that run's row with its first read, and everything that it writes lies under that lock;
// REPEATABLE READ turns whatever came between into a conflict. It needs no more: what else it reads is immutable, or
// forbids (quarantines, revocations), which the fence keeps in order. SERIALIZABLE would keep it apart from its
// neighbours on index pages as well: with 4 sessions, 1.1 transactions were rolled back for each that was committed.
// Everything else (admissions, packages, trust) is SERIALIZABLE: what it decides on is also what is not there.
import type { Operation } from '../../protocol/protocol.ts';
import type { ReadRequest } from '../../protocol/reads.ts';

/** The first run that is named; work that names it is done in order. Null where none is. */
export function findRun(requests: readonly ReadRequest[]): string | null {
  for (const { args } of requests) {
    if ('runId' in args) {
      return args.runId;
    }
  }
  return null;
}

/** The run that an operation is of: every read is about it. Null where it is about more. */
export function findOnlyRun(operation: Operation): string | null {
  const requests = Object.values(operation.load());
  const runId = findRun(requests);
  return requests.every(({ args }) => 'runId' in args && args.runId === runId) ? runId : null;
}
