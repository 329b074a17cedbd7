// Canonical JSON: RFC 8785 over the subset that the product stores. Owns the only form that is ever digested.
// Floats, `undefined`, sparse arrays and lone surrogates have no canonical form here and are refused.
import { EdgeError } from './errors.ts';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/**
 * The canonical text of a value. Keys stand in UTF-16 code-unit order, never by locale.
 * Throws `invalid` naming the path of the first value outside the subset.
 */
export function canonicalJson(value: unknown): string {
  const text = canonicalJsonOrNull(value);
  if (text === null) {
    throw findRefusal(value, '') ?? refuse('', 'has no canonical form');
  }
  return text;
}

/**
 * The canonical text of an object whose keys are written in canonical order, and so are those of `within`, the only
 * object that it may hold: one call of JSON.stringify instead of one for every member. Null where that is not certain
 * to be its canonical text, as with every value outside the subset; then ask `canonicalJson`.
 */
export function orderedJson(ordered: object, within: object | null = null): string | null {
  if (!isPlain(ordered, within) || (within !== null && !isPlain(within, null))) {
    return null;
  }
  const text = JSON.stringify(ordered);
  // Where it is not a text's own backslash, it is the escape of a lone surrogate.
  return text.includes('\\ud') ? null : text;
}

function isPlain(ordered: object, within: object | null): boolean {
  for (const key in ordered) {
    const value = (ordered as Record<string, unknown>)[key];
    const isOne =
      value === within ||
      value === null ||
      typeof value === 'string' ||
      typeof value === 'boolean' ||
      (typeof value === 'number' && Number.isSafeInteger(value));
    if (!isOne) {
      return false;
    }
  }
  return true;
}

/** As `canonicalJson`; null where there is a value outside the subset. */
export function canonicalJsonOrNull(value: unknown): string | null {
  switch (typeof value) {
    case 'string':
      // ECMAScript's escapes for strings are those that RFC 8785 prescribes.
      return value.isWellFormed() ? JSON.stringify(value) : null;
    case 'number':
      return Number.isSafeInteger(value) ? `${value + 0}` : null; // −0 is 0, as RFC 8785 has it
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      return value === null ? 'null' : Array.isArray(value) ? writeList(value) : writeObject(value);
    default:
      return null;
  }
}

function writeList(list: readonly unknown[]): string | null {
  let text = '[';
  for (let index = 0; index < list.length; index += 1) {
    const item = canonicalJsonOrNull(list[index]);
    if (item === null) {
      return null;
    }
    text += index === 0 ? item : `,${item}`;
  }
  return `${text}]`;
}

function writeObject(value: object): string | null {
  if (!isPlainObject(value)) {
    return null;
  }
  let text = '{';
  for (const key of Object.keys(value).sort()) {
    const member = canonicalJsonOrNull((value as Record<string, unknown>)[key]);
    if (member === null || !key.isWellFormed()) {
      return null;
    }
    text += `${text === '{' ? '' : ','}${JSON.stringify(key)}:${member}`;
  }
  return `${text}}`;
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The first value outside the subset, in the order of writing; null where there is none. */
function findRefusal(value: unknown, path: string): EdgeError | null {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed() ? null : refuse(path, 'holds a lone surrogate');
    case 'number':
      return Number.isSafeInteger(value) ? null : refuse(path, 'is not a safe integer');
    case 'boolean':
      return null;
    case 'object':
      return value === null ? null : findRefusalWithin(value, path);
    default:
      return refuse(path, `is ${typeof value}, which JSON does not have`);
  }
}

function findRefusalWithin(value: object, path: string): EdgeError | null {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const refusal = findRefusal(value[index], `${path}[${index}]`);
      if (refusal !== null) {
        return refusal;
      }
    }
    return null;
  }
  if (!isPlainObject(value)) {
    return refuse(path, 'is not a plain object');
  }
  for (const key of Object.keys(value).sort()) {
    const member = path === '' ? key : `${path}.${key}`;
    const refusal = findRefusal(key, member) ?? findRefusal((value as Record<string, unknown>)[key], member);
    if (refusal !== null) {
      return refusal;
    }
  }
  return null;
}

function refuse(path: string, rule: string): EdgeError {
  const mistake = { file: null, path, line: null, rule };
  return new EdgeError('invalid', `${path === '' ? 'the value' : path} ${rule}`, {
    hint: 'use objects, arrays, strings, integers up to 2^53−1, booleans and null only',
    mistakes: [mistake],
  });
}

/** The bytes that a text takes in UTF-8. */
export function utf8Bytes(text: string): number {
  return Buffer.byteLength(text, 'utf8');
}
