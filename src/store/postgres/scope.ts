// What an operation is about, told from the reads that it names: that decides what it must not overtake, and how it is
// kept apart from others.
//
// An operation of one run locks that run's row with its first read, and everything that it writes lies under that lock;
// REPEATABLE READ turns whatever came between into a conflict. It needs no more: what else it reads is immutable, or
// forbids (quarantines, revocations), which the fence keeps in order. SERIALIZABLE would keep it apart from its
// neighbours on index pages as well: with 4 sessions, 1.1 transactions were rolled back for each that was committed.
//
// An admission locks nothing and needs no more either: what must not be there (its plan, its run, its key) has unique
// keys. Of those who change a package only a quarantine or a revocation looks at what runs there are, and that behind a
// closed fence; an admission which read the package as it was comes before any other change.
// Everything else (packages, trust, retries) is SERIALIZABLE: what it decides on is also what is not there.
import { type Operation, requestsOf } from '../../protocol/protocol.ts';
import { findRun, type ReadName } from '../../protocol/reads.ts';

const ofAdmissions: ReadonlySet<string> = new Set<ReadName>([
  ...(['keyOfPlan', 'admission', 'isRunKnown', 'startFacts'] as const),
  ...(['keyOfStart', 'admissionOfStart', 'package'] as const),
]);
const keys: ReadonlySet<string> = new Set<ReadName>(['keyOfPlan', 'keyOfStart']);

/** Whether it admits a run of a package, and asks nothing else. */
export function isAdmission(operation: Operation): boolean {
  const requests = requestsOf(operation);
  return requests.some(({ name }) => keys.has(name)) && requests.every(({ name }) => ofAdmissions.has(name));
}

/** Whether what it locks and unique keys keep it apart from others. */
export function isUnderLocks(operation: Operation): boolean {
  return findOnlyRun(operation) !== null || isAdmission(operation);
}

/** The run that an operation is of: every read is about it. Null where it is about more. */
export function findOnlyRun(operation: Operation): string | null {
  const requests = requestsOf(operation);
  const runId = findRun(requests);
  return requests.every(({ args }) => 'runId' in args && args.runId === runId) ? runId : null;
}
