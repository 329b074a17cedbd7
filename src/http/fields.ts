// What the fields of a request may hold, as valibot schemas with rules in plain words, and how they are read: all
// mistakes at once, unknown fields included.
import path from 'node:path';
import * as v from 'valibot';
import type { Mistake } from '../core/errors.ts';
import { isDigest, isIdentifier, isPackageName, isResourceId } from '../core/ids.ts';
import { limits } from '../core/limits.ts';
import { settingNameRule } from '../core/manifest-rules.ts';
import { describeValue } from '../core/manifest-shape.ts';

export type Shape = v.ObjectEntries;
export type Fields<S extends Shape> = v.InferOutput<v.ObjectSchema<S, undefined>>;
export type FieldReading<S extends Shape> = { readonly fields: Fields<S> } | { readonly mistakes: readonly Mistake[] };

function text(rule: string, accepts: (value: string) => boolean) {
  return v.pipe(
    v.string((issue) => `${rule}, but is ${describeValue(issue.input)}`),
    v.check((value) => value.isWellFormed() && accepts(value), rule),
  );
}

const reasonText = text(
  `must be text of 1 to ${limits.errorSummaryBytesMax} bytes`,
  (value) => value.trim() !== '' && !value.includes('\0') && Buffer.byteLength(value) <= limits.errorSummaryBytesMax,
);
const identifierRule = `must be an identifier of 1 to ${limits.identifierBytesMax} letters, digits and . _ : -`;
const counterRule = `must be a whole number from 0 to ${limits.counterMax}`;

export const identifierField = text(identifierRule, isIdentifier);
export const packageNameField = text('must be a package name: 1 to 63 of a-z, 0-9 and -', isPackageName);
export const resourceIdField = text('must be the id of a workflow: 1 to 63 of a-z, 0-9 and -', isResourceId);
export const pathField = text(
  'must be the absolute path of a directory or an archive',
  (value) => path.isAbsolute(value) && !value.includes('\0') && Buffer.byteLength(value) <= limits.directoryBytesMax,
);
export const publicKeyField = text('must be the 32 bytes of an Ed25519 key as 64 hex digits', isDigest);
export const reasonField = reasonText;
/** Absent and null are the same. */
export const optionalReasonField = v.nullish(reasonText, null);
export const optionalIdentifierField = v.nullish(identifierField, null);
export const lifecycleField = v.picklist(
  ['active', 'disabled', 'uninstalled'],
  'must be active, disabled or uninstalled',
);
export const optionalOnStopField = v.nullish(v.picklist(['stop', 'detach'], 'must be stop or detach'), null);
export const limitField = v.pipe(
  v.number(`must be a whole number from 1 to ${limits.counterMax}`),
  v.check(
    (value) => Number.isInteger(value) && value >= 1 && value <= limits.counterMax,
    `must be a whole number from 1 to ${limits.counterMax}`,
  ),
);
export const settingNameField = v.pipe(
  v.string('must be the name of a setting'),
  v.check(
    (name) => settingNameRule(name) === null,
    (issue) => settingNameRule(issue.input) ?? '',
  ),
);
// Its rule never says what it is instead: that may be a password. The verb knows how long it may be.
export const settingValueField = v.nullable(v.string('must be text, or null to unset it'));
/** Digits, as queries and headers have them; 0 where there are none. */
export const sequenceField = v.optional(
  v.pipe(
    v.string(counterRule),
    v.regex(/^(0|[1-9][0-9]{0,9})$/, counterRule),
    v.transform(Number),
    v.maxValue(limits.counterMax, counterRule),
  ),
  '0',
);
/** A plan is read by the verb itself, with rules of its own. */
export const planField = v.custom<Readonly<Record<string, unknown>>>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  (issue) => `must be a plan, but is ${describeValue(issue.input)}`,
);

/** Reads an object that has exactly the fields of a shape. */
export function readFields<S extends Shape>(shape: S, value: unknown): FieldReading<S> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { mistakes: [mistake('', `must be an object, but is ${describeValue(value)}`)] };
  }
  // By hand: valibot's strict object stops at the first unknown key.
  const unknownKeys = Object.keys(value).filter((key) => !Object.hasOwn(shape, key));
  const result = v.safeParse(v.object(shape), value);
  const mistakes = [
    ...unknownKeys.map((key) => mistake(key.slice(0, limits.identifierBytesMax), 'is not a known field')),
    ...(result.issues ?? []).map((issue) =>
      mistake(v.getDotPath(issue) ?? '', issue.input === undefined ? 'is missing' : issue.message),
    ),
  ].slice(0, limits.mistakesMax);
  return result.success && mistakes.length === 0 ? { fields: result.output } : { mistakes };
}

function mistake(field: string, rule: string): Mistake {
  return { file: null, path: field, line: null, rule };
}
