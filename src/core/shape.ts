// Strict readers for records that are digested: exact keys, exact types, bounds, every mistake with its path.
// They never coerce and never fill in, so normalizing a normalized value changes nothing.
import { EdgeError, type ErrorCode, type Mistake } from './errors.ts';
import { isDigest, isIdentifier, isPackageName, isPortableId, isResourceId } from './ids.ts';
import { limits } from './limits.ts';

type Place = { readonly path: string; readonly mistakes: Mistake[] };

/** Returns the value it accepts; otherwise notes the mistake, and what it returns is never used. */
export type Reader<T> = (value: unknown, place: Place) => T;
export type Read<R> = R extends Reader<infer T> ? T : never;

function refuse<T>(place: Place, rule: string): T {
  place.mistakes.push({ file: null, path: place.path, line: null, rule });
  return undefined as T;
}

/** Runs a reader; throws one error with every mistake. `code` is `damaged` for what came from the database. */
export function normalize<T>(reader: Reader<T>, value: unknown, subject: { what: string; code: ErrorCode }): T {
  const mistakes: Mistake[] = [];
  const accepted = reader(value, { path: '', mistakes });
  if (mistakes.length > 0) {
    const { path, rule } = mistakes[0]!;
    throw new EdgeError(subject.code, `${subject.what}: ${path === '' ? 'the document' : path} ${rule}`, {
      hint: subject.code === 'damaged' ? 'run `verify` and look at `doctor`' : 'correct the fields named and try again',
      mistakes,
    });
  }
  return accepted;
}

export function text(options: { rule: string; accepts: (value: string) => boolean }): Reader<string> {
  return (value, place) =>
    typeof value === 'string' && value.isWellFormed() && options.accepts(value) ? value : refuse(place, options.rule);
}

export const identifier = text({ accepts: isIdentifier, rule: 'must be an identifier of 1 to 128 bytes' });
export const portableId = text({ accepts: isPortableId, rule: 'must be an identifier of 1 to 36 bytes' });
export const resourceId = text({ accepts: isResourceId, rule: 'must be a name of 1 to 63 of a-z, 0-9, -' });
export const packageName = text({ accepts: isPackageName, rule: 'must be a package name of 1 to 63 of a-z, 0-9, -' });
export const digestText = text({ accepts: isDigest, rule: 'must be 64 lowercase hex digits' });

export function integer(min: number, max: number): Reader<number> {
  return (value, place) =>
    typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max
      ? value
      : refuse(place, `must be an integer from ${min} to ${max}`);
}

export const counter = integer(0, limits.counterMax);
export const timeMs = integer(0, Number.MAX_SAFE_INTEGER);

export const boolean: Reader<boolean> = (value, place) =>
  typeof value === 'boolean' ? value : refuse(place, 'must be true or false');

export function oneOf<const T extends string>(values: readonly T[]): Reader<T> {
  return (value, place) =>
    (values as readonly unknown[]).includes(value)
      ? (value as T)
      : refuse(place, `must be one of ${values.join(', ')}`);
}

export function nullable<T>(reader: Reader<T>): Reader<T | null> {
  return (value, place) => (value === null ? null : reader(value, place));
}

export function list<T>(reader: Reader<T>, bounds: { min: number; max: number }): Reader<readonly T[]> {
  return (value, place) => {
    if (!Array.isArray(value) || value.length < bounds.min || value.length > bounds.max) {
      return refuse(place, `must be a list of ${bounds.min} to ${bounds.max} entries`);
    }
    return value.map((item, index) => reader(item, { ...place, path: `${place.path}[${index}]` }));
  };
}

export function object<R extends Record<string, Reader<unknown>>>(
  readers: R,
): Reader<{ readonly [K in keyof R]: Read<R[K]> }> {
  return (value, place) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return refuse(place, 'must be an object');
    }
    const under = (key: string): Place => ({ ...place, path: place.path === '' ? key : `${place.path}.${key}` });
    for (const key of Object.keys(value)) {
      if (!Object.hasOwn(readers, key)) {
        refuse(under(key), 'is not a known field');
      }
    }
    const accepted: Record<string, unknown> = {};
    for (const [key, reader] of Object.entries(readers)) {
      if (Object.hasOwn(value, key)) {
        accepted[key] = reader((value as Record<string, unknown>)[key], under(key));
      } else {
        refuse(under(key), 'is missing');
      }
    }
    return accepted as { readonly [K in keyof R]: Read<R[K]> };
  };
}
