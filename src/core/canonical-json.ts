// Canonical JSON: RFC 8785 over the subset that the product stores. Owns the only form that is ever digested.
// Floats, `undefined`, sparse arrays and lone surrogates have no canonical form here and are refused.
import { EdgeError } from './errors.ts';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/**
 * The canonical text of a value. Keys stand in UTF-16 code-unit order, never by locale.
 * Throws `invalid` naming the path of the first value outside the subset.
 */
export function canonicalJson(value: unknown): string {
  return write(value, '');
}

function write(value: unknown, path: string): string {
  switch (typeof value) {
    case 'string':
      return writeString(value, path);
    case 'number':
      if (!Number.isSafeInteger(value)) {
        throw refuse(path, 'is not a safe integer');
      }
      return `${value + 0}`; // −0 is 0, as RFC 8785 has it
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      return value === null ? 'null' : writeComposite(value, path);
    default:
      throw refuse(path, `is ${typeof value}, which JSON does not have`);
  }
}

function writeString(value: string, path: string): string {
  if (!value.isWellFormed()) {
    throw refuse(path, 'holds a lone surrogate');
  }
  // ECMAScript's escapes for strings are those that RFC 8785 prescribes.
  return JSON.stringify(value);
}

function writeComposite(value: object, path: string): string {
  if (Array.isArray(value)) {
    const items: string[] = [];
    for (let index = 0; index < value.length; index += 1) {
      items.push(write(value[index], `${path}[${index}]`));
    }
    return `[${items.join(',')}]`;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw refuse(path, 'is not a plain object');
  }
  const members: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const member = path === '' ? key : `${path}.${key}`;
    members.push(`${writeString(key, member)}:${write((value as Record<string, unknown>)[key], member)}`);
  }
  return `{${members.join(',')}}`;
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
