// Reads a JSON manifest with the line of every part. JSON.parse knows no lines and takes the last of two equal keys
// without a word; the yaml library would tell both, but who writes JSON should not pay for its evaluation.
// Accepts exactly what JSON.parse accepts (a test holds them together), less duplicate keys and excessive depth.
import type { ManifestPath } from '../core/manifest-notes.ts';
import { createTextPlaces, type ParsedText, type TextPlaces } from './parsed-text.ts';

const spacePattern = /[ \t\r\n]*/y;
// Finds where a string ends; what may stand in it is for JSON.parse to say.
const stringPattern = /"[^"\\]*(?:\\.[^"\\]*)*"/y;
const scalarPattern = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y;

type Reader = {
  readonly text: string;
  readonly places: TextPlaces;
  /** Everything before this index is read. */
  at: number;
  line: number;
  /** After the first syntax error nothing more is read, and every value is null. */
  hasFailed: boolean;
};

/** Never throws: a syntax error is a mistake, and the value then means nothing. */
export function parseJsonText(text: string): ParsedText {
  const reader: Reader = { text, places: createTextPlaces(), at: 0, line: 1, hasFailed: false };
  const value = readValue(reader, [], null);
  skipSpace(reader);
  if (reader.at < text.length) {
    expected(reader, [], 'the end of the file');
  }
  return reader.places.finish(value);
}

function readValue(reader: Reader, path: ManifestPath, lineOfKey: number | null): unknown {
  skipSpace(reader);
  if (!reader.places.enter(path, lineOfKey ?? reader.line)) {
    reader.hasFailed = true;
    return null;
  }
  switch (reader.text[reader.at]) {
    case '{':
      return readObject(reader, path);
    case '[':
      return readArray(reader, path);
    case '"':
      return readString(reader, path, 'a value');
    default: {
      const scalar = take(reader, scalarPattern);
      return scalar === null ? expected(reader, path, 'a value') : JSON.parse(scalar);
    }
  }
}

function readArray(reader: Reader, path: ManifestPath): unknown {
  const items: unknown[] = [];
  if (isEmpty(reader, ']')) {
    return items;
  }
  do {
    items.push(readValue(reader, [...path, items.length], null));
  } while (takeMark(reader, ',]', path) === ',');
  return items;
}

function readObject(reader: Reader, path: ManifestPath): unknown {
  const entries = new Map<string, { readonly value: unknown; readonly line: number }>();
  if (isEmpty(reader, '}')) {
    return {};
  }
  do {
    skipSpace(reader);
    const { line } = reader;
    const key = readString(reader, path, 'a key in double quotes');
    if (key === null) {
      return null;
    }
    const first = entries.get(key);
    if (first !== undefined) {
      const rule = `is here for the second time (the first is on line ${first.line})`;
      reader.places.refuse([...path, key], line, rule);
    }
    takeMark(reader, ':', path);
    entries.set(key, { value: reader.hasFailed ? null : readValue(reader, [...path, key], line), line });
  } while (takeMark(reader, ',}', path) === ',');
  // Made with fromEntries: assignment would turn a key `__proto__` into a prototype.
  return Object.fromEntries([...entries].map(([key, { value }]) => [key, value]));
}

function readString(reader: Reader, path: ManifestPath, what: string): string | null {
  const token = take(reader, stringPattern);
  if (token === null) {
    return expected(reader, path, what);
  }
  try {
    return JSON.parse(token) as string;
  } catch {
    return fail(reader, path, 'is no JSON: a string holds a line end, a control character or an unknown escape');
  }
}

/** Steps over an opening bracket, and over the closing one if nothing stands between them. */
function isEmpty(reader: Reader, closing: string): boolean {
  reader.at += 1;
  skipSpace(reader);
  const isClosed = reader.text[reader.at] === closing;
  reader.at += isClosed ? 1 : 0;
  return isClosed;
}

function takeMark(reader: Reader, marks: string, path: ManifestPath): string | null {
  skipSpace(reader);
  const mark = reader.text[reader.at];
  if (reader.hasFailed || mark === undefined || !marks.includes(mark)) {
    return expected(reader, path, [...marks].join(' or '));
  }
  reader.at += 1;
  return mark;
}

function take(reader: Reader, pattern: RegExp): string | null {
  pattern.lastIndex = reader.at;
  const taken = pattern.exec(reader.text)?.[0] ?? null;
  reader.at += taken?.length ?? 0;
  return taken;
}

// Line ends stand between tokens only: inside a string they are a mistake.
function skipSpace(reader: Reader): void {
  for (const character of take(reader, spacePattern) ?? '') {
    reader.line += character === '\n' ? 1 : 0;
  }
}

function expected(reader: Reader, path: ManifestPath, what: string): null {
  const code = reader.text.codePointAt(reader.at);
  const found = code === undefined ? 'the end of the file' : JSON.stringify(String.fromCodePoint(code));
  return fail(reader, path, `is no JSON: ${what} expected, but ${found} found`);
}

function fail(reader: Reader, path: ManifestPath, rule: string): null {
  if (!reader.hasFailed) {
    reader.hasFailed = true;
    reader.places.fail(path, reader.line, rule);
  }
  return null;
}
