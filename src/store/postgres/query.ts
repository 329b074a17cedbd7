// How statements are written here: constants with named parameters, never put together out of values. Several reads
// become one statement, so that a protocol's rows cost one round trip.
import { assert } from '../../core/errors.ts';
import { fingerprint } from '../../core/hash.ts';
import type { SqlValue, Statement } from './connection.ts';

export type Values = Readonly<Record<string, SqlValue>>;

/**
 * One named read: a query of at most one row with one column of type json or jsonb, and what its value means. Put
 * together as json, which is only written; as jsonb each level would be taken apart and built again.
 */
export type ReadPart<T> = {
  readonly sql: string;
  readonly values: Values;
  /** `json` is null where there was no row. Throws `damaged`. */
  readonly decode: (json: unknown) => T;
};

// Not the second colon of a cast.
const parameter = /(?<!:):([A-Za-z]\w*)/g;

/** Exactly the named values must be given. */
export function statement(sql: string, values: Values, options: { readonly isKept?: boolean } = {}): Statement {
  const names: string[] = [];
  const text = sql.replaceAll(parameter, (_whole, name: string) => {
    if (!names.includes(name)) {
      names.push(name);
    }
    return `$${names.indexOf(name) + 1}`;
  });
  assert(Object.keys(values).length === names.length, `exactly ${names.join(', ')} are given, in: ${sql}`);
  const placed = names.map((name) => {
    const value = values[name];
    assert(isBindable(value), `:${name} is null, a safe integer or a string, in: ${sql}`);
    return value;
  });
  return { text, values: placed, name: options.isKept === false ? null : fingerprint(text) };
}

function isBindable(value: unknown): value is SqlValue {
  return value === null || typeof value === 'string' || Number.isSafeInteger(value);
}

/** Rows that a decision is made on are locked; `FOR UPDATE` in a part's text says which. */
const lock = ' FOR UPDATE';

/**
 * The reads as one statement, with the database's clock as `nowMs`; column `r0` is the first read's, and so on. For a
 * look alone nothing is locked.
 */
export function combineReads(
  parts: readonly ReadPart<unknown>[],
  { isLocking }: { readonly isLocking: boolean },
): Statement {
  const columns = parts.map(({ sql }, index) => {
    const own = sql.replaceAll(parameter, (_whole, name: string) => `:r${index}_${name}`);
    return `(${isLocking ? own : own.replaceAll(lock, '')}) AS r${index}`;
  });
  const values = parts.flatMap((part, index) =>
    Object.entries(part.values).map(([name, value]): [string, SqlValue] => [`r${index}_${name}`, value]),
  );
  const now = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS "nowMs"';
  return statement(['SELECT', [...columns, now].join(', ')].join(' '), Object.fromEntries(values));
}
