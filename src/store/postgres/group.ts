// Several operations as one transaction: one exchange reads for all of them, another writes what was decided and
// commits. Owns what is sent when, and what a failure says; what kinds of groups there are is in group-of-….ts. Tries
// nothing again: whatever the server refuses undoes all of them, and each is then carried out by itself, where a
// failure is told of the right one.
//
//   [BEGIN, LOCK, what the kind asks] ─▶ decide each, with what follows it ─▶ [writes, COMMIT]
import type { Operation } from '../../protocol/protocol.ts';
import type { Settled } from '../store.ts';
import type { Answer, Connection, Statement } from './connection.ts';
import { isSessionLost } from './failure.ts';
import { beginUnderLocks, commit, findDoubt, rollback } from './transaction.ts';

export type Member = { readonly operation: Operation; readonly freshIds: readonly string[] };

export type Part = { readonly outcome: unknown; readonly settled: readonly Settled[] };

export type Rows = Extract<Answer, { readonly rows: unknown }>['rows'];

/** What members of one kind ask, decide and write. */
export type GroupKind<M extends Member, D extends Part> = {
  /** Whether one may be in a group at all. */
  readonly fits: (member: M) => boolean;
  readonly ask: (members: readonly M[]) => Asking<D>;
  readonly write: (decided: readonly D[]) => readonly Statement[];
};

type Asking<D> = {
  /** The last one is the read. */
  readonly statements: readonly Statement[];
  /** In the order of the members; null for one that has to go by itself. */
  readonly decide: (rows: Rows) => readonly (D | null)[];
};

export type Together =
  /** In the order of the members; null for one that has to go by itself, and was not carried out. */
  | { readonly kind: 'committed'; readonly parts: readonly (Part | null)[] }
  /** Nothing happened: each goes by itself. */
  | { readonly kind: 'apart' }
  | { readonly kind: 'unknown'; readonly error: unknown };

/** The session is outside of a transaction afterwards, or broken. Never throws but for a defect. */
export async function tryTogether<M extends Member, D extends Part>(
  connection: Connection,
  members: readonly M[],
  kind: GroupKind<M, D>,
): Promise<Together> {
  const { statements, decide } = kind.ask(members);
  const answers = await connection.exchange([beginUnderLocks, ...statements]);
  const read = answers.at(-1)!;
  if ('error' in read || answers.some((answer) => 'error' in answer)) {
    return leave(connection);
  }
  const parts = decide(read.rows);
  const decided = parts.filter((part) => part !== null);
  if (decided.length === 0) {
    return leave(connection);
  }
  connection.takeWarnings();
  const ends = await connection.exchange([...kind.write(decided), commit]);
  const last = ends.at(-1)!;
  const failed = ends.find((answer) => 'error' in answer);
  if (failed !== undefined && 'error' in failed) {
    return isSessionLost(failed.error) ? { kind: 'unknown', error: failed.error } : { kind: 'apart' };
  }
  const doubt = findDoubt(last, connection.takeWarnings());
  if (doubt !== null) {
    return { kind: 'unknown', error: doubt };
  }
  return 'command' in last && last.command === 'COMMIT' ? { kind: 'committed', parts } : { kind: 'apart' };
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

/** What one member meets (damage, a refusal, a defect) is none of the others': it meets that again by itself. */
export function decideApart<D>(decide: () => D | null): D | null {
  try {
    return decide();
  } catch {
    return null;
  }
}
