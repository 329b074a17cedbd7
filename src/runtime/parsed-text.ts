// What a parser of manifests hands on: the value, where its parts stand, and what is wrong with the text itself.
import { limits } from '../core/limits.ts';
import { formatPath, type ManifestPath } from '../core/manifest-notes.ts';

export type TextMistake = { readonly path: string; readonly line: number | null; readonly rule: string };

export type ParsedText = {
  readonly value: unknown;
  /** False when the text has no value to look at: not this language, or beyond a bound. */
  readonly isReadable: boolean;
  /** Line, counted from 1, of each part by its path. */
  readonly lines: ReadonlyMap<string, number>;
  readonly mistakes: readonly TextMistake[];
};

/** Keeps the places of a text while it is read, with the two bounds that every reader of nested data needs. */
export type TextPlaces = {
  /** Notes where a part begins. False when the text cannot be read on: too deep, too large, or failed. */
  enter(path: ManifestPath, line: number): boolean;
  /** Notes a mistake beside which the value still means something, such as a duplicate key. */
  refuse(path: ManifestPath, line: number | null, rule: string): void;
  /** Notes a mistake after which the value means nothing. */
  fail(path: ManifestPath, line: number | null, rule: string): void;
  finish(value: unknown): ParsedText;
};

export function createTextPlaces(): TextPlaces {
  const lines = new Map<string, number>();
  const mistakes: TextMistake[] = [];
  let nodes = 0;
  let isReadable = true;
  const refuse: TextPlaces['refuse'] = (path, line, rule) => {
    mistakes.push({ path: formatPath(path), line, rule });
  };
  const fail: TextPlaces['fail'] = (path, line, rule) => {
    isReadable = false;
    refuse(path, line, rule);
  };
  return {
    enter(path, line) {
      nodes += 1;
      if (isReadable && path.length > limits.manifestDepthMax) {
        fail(path, line, `is nested too deeply: ${limits.manifestDepthMax} levels are allowed`);
      } else if (isReadable && nodes > limits.manifestNodesMax) {
        fail(path, line, `is one value too many: ${limits.manifestNodesMax} are allowed, aliases followed`);
      } else if (isReadable) {
        lines.set(formatPath(path), line);
      }
      return isReadable;
    },
    refuse,
    fail,
    finish: (value) => ({ value, isReadable, lines, mistakes }),
  };
}

/** The line of a part, or of the nearest part around it that has one. */
export function findLine(lines: ReadonlyMap<string, number>, path: string): number | null {
  for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf('.'), at.lastIndexOf('[')))) {
    const line = lines.get(at);
    if (line !== undefined || at === '') {
      return line ?? null;
    }
  }
}
