// Operations of several runs, each under its lease, with what follows them.
import { limits } from '../../core/limits.ts';
import { type Operation, requestsOf } from '../../protocol/protocol.ts';
import type { ReadRequest } from '../../protocol/reads.ts';
import type { Lease } from '../leases.ts';
import type { Settled } from '../store.ts';
import { decideApart, type GroupKind, type Member, type Part } from './group.ts';
import { leasesStatement } from './leases.ts';
import type { ReadPart } from './query.ts';
import { combineViews, type RunView } from './run-view.ts';
import type { TransactionParts } from './transaction.ts';
import { type Change, foldAppend, joinChanges, writeChanges } from './writes.ts';

export type RunMember = Member & { readonly lease: Lease };

type Decided = Part & { readonly change: Change | null };

/** Of each run at most one operation is in a group, and all that it reads is a view of its run. */
export function groupOfRuns(parts: TransactionParts): GroupKind<RunMember, Decided> {
  const viewOf = ({ operation, lease }: RunMember) => {
    const requests = requestsOf(operation);
    const isOfRun = requests.every(({ args }) => 'runId' in args && args.runId === lease.runId);
    return isOfRun ? parts.viewOf(lease.runId, requests) : null;
  };
  return {
    fits: (member) => viewOf(member) !== null,
    ask(members) {
      const views = members.map(viewOf) as ReadPart<RunView | null>[];
      return {
        statements: [leasesStatement(members.map(({ lease }) => lease)), combineViews(views)],
        decide: (rows) =>
          members.map((member, index) =>
            decideApart(() => {
              const view = views[index]!.decode(rows[index]?.['view'] ?? null);
              return decideMember({ member, view, databaseMs: Number(rows[index]?.['nowMs']), parts });
            }),
          ),
      };
    },
    write(decided) {
      const changes = decided.flatMap(({ change }) => change ?? []);
      return changes.length === 0 ? [] : [writeChanges(changes)];
    },
  };
}

type Deciding = {
  readonly member: RunMember;
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
