// Collects the mistakes of a manifest with their paths, up to a bound; what is beyond it is counted.
import { limits } from './limits.ts';

export type ManifestPath = readonly (string | number)[];

/** One mistake: `path` such as `tasks.probe.run[0]`, empty for the whole manifest; `rule` in plain words. */
export type ManifestMistake = { readonly path: string; readonly rule: string };

export type Notes = {
  /** A rule that costs something to say (the nearest spelling) is given as a function. */
  add(path: ManifestPath, rule: string | (() => string)): void;
  /** Everything noted so far; at most `mistakesMax` entries and one that counts the others. */
  list(): readonly ManifestMistake[];
};

export function createNotes(): Notes {
  const mistakes: ManifestMistake[] = [];
  let uncounted = 0;
  return {
    add(path, rule) {
      if (mistakes.length >= limits.mistakesMax) {
        uncounted += 1;
        return;
      }
      mistakes.push({ path: formatPath(path), rule: typeof rule === 'string' ? rule : rule() });
    },
    list() {
      return uncounted === 0 ? mistakes : [...mistakes, { path: '', rule: `has ${uncounted} more mistakes` }];
    },
  };
}

/** `tasks.probe.run[0]`; a key that is no plain word stands in brackets: `tasks["小 工具"]`. */
export function formatPath(path: ManifestPath): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') {
      text += `[${part}]`;
    } else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(part)) {
      text += text === '' ? part : `.${part}`;
    } else {
      text += `[${JSON.stringify(part)}]`;
    }
  }
  return text;
}
