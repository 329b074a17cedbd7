// Operations of several runs, each under its lease, as one transaction: one exchange reads all of them, another writes
// what was decided and commits. Owns what goes together and what falls out of it; tries nothing again. Whatever the
// server refuses undoes all of them, and each is then carried out by itself, where a failure is told of the right one.
//
//   [BEGIN, LOCK, leases, runs] ─▶ decide each, with what follows it ─▶ [changes, COMMIT]
import { limits } from '../../core/limits.ts';
import type { Operation } from '../../protocol/protocol.ts';
import type { ReadRequest } from '../../protocol/reads.ts';
import type { Lease } from '../leases.ts';
import type { Settled } from '../store.ts';
import type { Connection } from './connection.ts';
import { isSessionLost } from './failure.ts';
import { leasesStatement } from './leases.ts';
import type { ReadPart } from './query.ts';
import { combineViews, type RunView } from './run-view.ts';
import { beginOfRun, commit, findDoubt, rollback, type TransactionParts } from './transaction.ts';
import { type Change, foldAppend, joinChanges, writeChanges } from './writes.ts';

export type Member = { readonly operation: Operation; readonly lease: Lease; readonly freshIds: readonly string[] };

export type Part = { readonly outcome: unknown; readonly settled: readonly Settled[] };

export type Together =
  /** In the order of the members; null for one that has to go by itself, and was not carried out. */
  | { readonly kind: 'committed'; readonly parts: readonly (Part | null)[] }
  /** Nothing happened: each goes by itself. */
  | { readonly kind: 'apart' }
  | { readonly kind: 'unknown'; readonly error: unknown };

/** What a member asks, answered by a view of its run; null where it has to go by itself. */
export function viewOfMember(
  { operation, lease }: Omit<Member, 'freshIds'>,
  { viewOf }: Pick<TransactionParts, 'viewOf'>,
) {
  const requests = requestsOf(operation);
  const isOfRun = requests.every(({ args }) => 'runId' in args && args.runId === lease.runId);
  return isOfRun ? viewOf(lease.runId, requests) : null;
}

/** The session is outside of a transaction afterwards, or broken. Never throws but for a defect. */
export async function tryTogether(
  connection: Connection,
  members: readonly Member[],
  parts: TransactionParts,
): Promise<Together> {
  const views = members.map((member) => viewOfMember(member, parts)) as ReadPart<RunView | null>[];
  const answers = await connection.exchange([
    beginOfRun,
    leasesStatement(members.map(({ lease }) => lease)),
    combineViews(views),
  ]);
  const read = answers.at(-1)!;
  const rows = 'error' in read ? [] : read.rows;
  if (rows.length !== members.length || answers.some((answer) => 'error' in answer)) {
    return leave(connection);
  }
  const databaseMs = Number(rows[0]?.['nowMs']);
  const decided = members.map((member, index) =>
    decideApart(() =>
      decideMember({ member, view: views[index]!.decode(rows[index]?.['view'] ?? null), databaseMs, parts }),
    ),
  );
  const changes = decided.flatMap((each) => each?.change ?? []);
  if (decided.every((each) => each === null)) {
    return leave(connection);
  }
  connection.takeWarnings();
  const ends = await connection.exchange([...(changes.length === 0 ? [] : [writeChanges(changes)]), commit]);
  const last = ends.at(-1)!;
  const failed = ends.find((answer) => 'error' in answer);
  if (failed !== undefined && 'error' in failed) {
    return isSessionLost(failed.error) ? { kind: 'unknown', error: failed.error } : { kind: 'apart' };
  }
  const doubt = findDoubt(last, connection.takeWarnings());
  if (doubt !== null) {
    return { kind: 'unknown', error: doubt };
  }
  return 'command' in last && last.command === 'COMMIT' ? { kind: 'committed', parts: decided } : { kind: 'apart' };
}

async function leave(connection: Connection): Promise<Together> {
  if (!connection.isBroken) {
    const [answer] = await connection.exchange([rollback]);
    if (answer === undefined || 'error' in answer) {
      await connection.end();
    }
  }
  return { kind: 'apart' };
}

type Decided = Part & { readonly change: Change | null };

/** What one member meets (damage, a refusal, a defect) is none of the others': it meets that again by itself. */
function decideApart(decide: () => Decided | null): Decided | null {
  try {
    return decide();
  } catch {
    return null;
  }
}

type Deciding = {
  readonly member: Member;
  readonly view: RunView | null;
  readonly databaseMs: number;
  readonly parts: TransactionParts;
};

/** Depth first, as a transaction of its own would; null where something asks for more than the view holds. */
function decideMember({ member, view, databaseMs, parts }: Deciding): Decided | null {
  const settled: Settled[] = [];
  let change: Change | null = null;
  let outcome: unknown = null;
  const waiting: Operation[] = [member.operation];
  for (let count = 0; waiting.length > 0; count += 1) {
    const operation = waiting.shift()!;
    if (count > limits.followMax || view === null || !view.holds(requestsOf(operation))) {
      return null;
    }
    const rows = Object.fromEntries(
      Object.entries(operation.load()).map(([name, request]) => [name, view.answer(request as ReadRequest)]),
    );
    const now = parts.observe(databaseMs);
    const freshIds = count === 0 ? member.freshIds : parts.drawIds(operation);
    const decision = operation.decide(rows, { now, freshIds, trustedFromMs: parts.trustedFromMs });
    if ((decision.ledger ?? []).length > 0) {
      return null;
    }
    if (decision.append !== undefined) {
      const folded = foldAppend(decision.append, now.wallMs);
      change = change === null ? folded.change : joinChanges(change, folded.change);
      view.take(folded.after);
    }
    settled.push({ operation, outcome: decision.outcome, runId: decision.append?.rows.run.id ?? null });
    outcome = count === 0 ? decision.outcome : outcome;
    waiting.unshift(...(decision.follow ?? []));
  }
  return { outcome, settled, change };
}

function requestsOf(operation: Operation): readonly ReadRequest[] {
  return Object.values(operation.load()) as readonly ReadRequest[];
}
