// The project as the build sees it: where its files are, what package.json and CHANGELOG.md say. Paths are relative to
// the project's root and use slashes; lists are sorted, so that nothing depends on the order of a directory.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { EdgeError } from '../src/core/errors.ts';

export const projectRoot = path.dirname(import.meta.dirname);

/** Folders that hold what people write. */
export const sourceFolders = ['src', 'schema', 'build', 'edge-evidence', 'test'] as const;

export type PackageJson = {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly exports: Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;
  readonly bin: Readonly<Record<string, string>>;
};

export function readText(root: string, file: string): string {
  return readFileSync(path.join(root, file), 'utf8');
}

export function readPackage(root: string): PackageJson {
  return JSON.parse(readText(root, 'package.json'));
}

/** All files below the folders, sorted by path. A folder that does not exist has none. */
export function listFiles(root: string, folders: readonly string[]): string[] {
  const files: string[] = [];
  for (const folder of folders) {
    for (const entry of readdirSync(path.join(root, folder), { withFileTypes: true, recursive: true })) {
      if (entry.isFile()) {
        files.push(path.relative(root, path.join(entry.parentPath, entry.name)).replaceAll(path.sep, '/'));
      }
    }
  }
  return files.sort();
}

/**
 * The date that a build carries, in milliseconds since 1970: that of the newest heading in CHANGELOG.md, never the
 * clock's, so that the same sources give the same bytes. Throws `invalid` where the heading has no date.
 */
export function readReleaseMs(root: string): number {
  const heading = /^## .*$/m.exec(readText(root, 'CHANGELOG.md'))?.[0] ?? '';
  const date = /\b\d{4}-\d{2}-\d{2}\b/.exec(heading)?.[0];
  const releaseMs = Date.parse(`${date}T00:00:00Z`);
  if (Number.isNaN(releaseMs)) {
    throw new EdgeError('invalid', `the newest heading of CHANGELOG.md has no date: ${heading}`, {
      hint: 'write it as: ## 1.2.3 (2026-01-31)',
    });
  }
  return releaseMs;
}

/** The package that a bundled file comes from, `@scope/name` or `name`; null for a file of the project. */
export function packageOf(file: string): string | null {
  const parts = file.split('node_modules/');
  const inside = parts.at(-1) ?? '';
  if (parts.length === 1) {
    return null;
  }
  return inside
    .split('/')
    .slice(0, inside.startsWith('@') ? 2 : 1)
    .join('/');
}
