// Between a record's fields and a row's columns: digests, spans of time, JSON texts, and the comparison of a stored row
// with what it has to be. Owns no statement. What does not fit is `damaged`, named by table and column.

import { canonicalJson, type Json } from '../../core/canonical-json.ts';
import type { Span } from '../../core/records.ts';
import { damaged } from '../damaged.ts';
import type { SqlValue } from './statement.ts';

/** The bytes of a digest given in hex. */
export function toBytes(hex: string): Uint8Array {
  return Buffer.from(hex, 'hex');
}

/** Hex of a stored digest. One that is missing where a record must have it becomes one that no record has. */
export function toHex(bytes: Uint8Array | null): string {
  return bytes === null ? '' : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

/** As `toBytes`, for a digest that a record may lack. */
export function toBytesOrNull(hex: string | null): Uint8Array | null {
  return hex === null ? null : toBytes(hex);
}

/** As `toHex`, for a digest that a record may lack. */
export function toHexOrNull(bytes: Uint8Array | null): string | null {
  return bytes === null ? null : toHex(bytes);
}

/** RunRecords and the ledger of admitted steps have one key for each step of a run; number 0 is the run itself. */
export function recordKeyOf(runKey: number, number: number): number {
  return runKey * 256 + number;
}

/** The first and the last key of a run's steps. */
export function stepKeysOf(runKey: number): { readonly first: number; readonly last: number } {
  return { first: recordKeyOf(runKey, 1), last: recordKeyOf(runKey, 255) };
}

/** The four columns of a span, in this order; all null where there is none. */
export type SpanColumns = readonly [
  startMs: number | null,
  startUptimeMs: number | null,
  bootId: string | null,
  lengthMs: number | null,
];

/** The columns of a span. Its inverse is `decodeSpan`. */
export function encodeSpan(span: Span | null): SpanColumns {
  return span === null ? [null, null, null, null] : [span.startMs, span.startUptimeMs, span.bootId, span.lengthMs];
}

/** Null where no column is set. A span of which a part is missing is made one that no digest can have covered. */
export function decodeSpan(columns: SpanColumns): Span | null {
  if (columns.every((column) => column === null)) {
    return null;
  }
  const [startMs, startUptimeMs, bootId, lengthMs] = columns;
  return { startMs: startMs ?? -1, startUptimeMs: startUptimeMs ?? -1, bootId: bootId ?? '', lengthMs: lengthMs ?? -1 };
}

/** A stored text as JSON; `damaged` unless it is exactly the canonical text of what it says. */
export function parseCanonical(text: string, where: string, runId?: string): Json {
  const options = runId === undefined ? {} : { runId };
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
    if (canonicalJson(value) === text) {
      return value;
    }
  } catch (cause) {
    throw damaged(where, 'is not canonical JSON', { ...options, cause });
  }
  throw damaged(where, 'is not canonical JSON', options);
}

export type Columns = Readonly<Record<string, SqlValue>>;

/** Compares a stored row with the columns that it must have; `damaged` names the first that differs. */
export function checkMirror(stored: Columns, expected: Columns, place: { table: string; runId: string }): void {
  for (const [column, value] of Object.entries(expected)) {
    if (!isSame(stored[column] ?? null, value)) {
      throw damaged(`${place.table}.${column}`, 'differs from the evidence beside it', { runId: place.runId });
    }
  }
}

function isSame(left: SqlValue, right: SqlValue): boolean {
  return left instanceof Uint8Array && right instanceof Uint8Array ? Buffer.compare(left, right) === 0 : left === right;
}
