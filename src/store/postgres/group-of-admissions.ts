// Admissions of runs that are not there yet. What several of them ask alike (a package, as a rule) is read once.
import { type Decision, requestsOf } from '../../protocol/protocol.ts';
import type { ReadRequest } from '../../protocol/reads.ts';
import { bounds } from './bounds.ts';
import { decideApart, type GroupKind, type Member, type Part } from './group.ts';
import { combineReads } from './query.ts';
import { isAdmission } from './scope.ts';
import type { TransactionParts } from './transaction.ts';
import { type AdmissionWrite, encodeAdmission, writeAdmissions } from './writes.ts';

type Decided = Part & {
  /** As it is sent; null where nothing is written. */
  readonly admission: string | null;
};

export function groupOfAdmissions(parts: TransactionParts): GroupKind<Member, Decided> {
  return {
    fits: ({ operation }) => isAdmission(operation),
    ask(members) {
      const asked = new Map<string, ReadRequest>();
      for (const request of members.flatMap(({ operation }) => requestsOf(operation))) {
        asked.set(JSON.stringify(request), request);
      }
      const reads = [...asked.values()].map((request) => parts.partOf(request));
      const columns = new Map([...asked.keys()].map((key, index) => [key, index]));
      return {
        statements: [combineReads(reads, { isLocking: true })],
        decide([row]) {
          const answers = new Map<number, unknown>();
          const answer = (request: ReadRequest) => {
            const column = columns.get(JSON.stringify(request))!;
            if (!answers.has(column)) {
              answers.set(column, reads[column]!.decode(row?.[`r${column}`] ?? null));
            }
            return answers.get(column);
          };
          return decideAll(members, { answer, databaseMs: Number(row?.['nowMs']), parts });
        },
      };
    },
    write(decided) {
      const admissions = decided.flatMap(({ admission }) => admission ?? []);
      return admissions.length === 0 ? [] : [writeAdmissions(admissions)];
    },
  };
}

type Deciding = {
  readonly answer: (request: ReadRequest) => unknown;
  readonly databaseMs: number;
  readonly parts: TransactionParts;
};

/** One that takes what another of the group has taken goes by itself, and finds it; so does what is too much. */
function decideAll(members: readonly Member[], deciding: Deciding): readonly (Decided | null)[] {
  const taken = new Set<string>();
  let length = 0;
  return members.map((member) =>
    decideApart(() => {
      const { operation } = member;
      const { outcome, append, ledger = [], follow = [] } = decideMember(member, deciding);
      const settled = [{ operation, outcome, runId: null }];
      const [write] = ledger;
      if (append !== undefined || follow.length > 0 || ledger.length > 1) {
        return null;
      }
      if (write === undefined) {
        return { outcome, settled, admission: null };
      }
      if (write.write !== 'admission') {
        return null;
      }
      const identities = identitiesOf(write);
      const admission = encodeAdmission(write);
      if (identities.some((identity) => taken.has(identity)) || length + admission.length > bounds.groupLengthMax) {
        return null;
      }
      length += admission.length;
      for (const identity of identities) {
        taken.add(identity);
      }
      return { outcome, settled, admission };
    }),
  );
}

function decideMember({ operation, freshIds }: Member, { answer, databaseMs, parts }: Deciding): Decision<unknown> {
  const rows = Object.fromEntries(
    Object.entries(operation.load()).map(([name, request]) => [name, answer(request as ReadRequest)]),
  );
  const now = parts.observe(databaseMs);
  return operation.decide(rows, { now, freshIds, trustedFromMs: parts.trustedFromMs });
}

/** What only one admission can have. */
function identitiesOf({ plan, key }: AdmissionWrite): readonly string[] {
  const { projectId, idempotencyKey } = key;
  const named = idempotencyKey === null ? [] : [`key ${projectId} ${idempotencyKey}`];
  return [`plan ${plan.planId}`, `run ${plan.runId}`, ...named];
}
