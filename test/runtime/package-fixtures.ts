// Package directories on the disk for tests, and the mistakes of one as short lines.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isEdgeError } from '../../src/core/errors.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';

export const goodManifest = `schema: qinglong/package@v1
name: wan-watch
version: 1.2.0
tasks:
  probe:
    run: [./scripts/probe.sh, --fast]
  rotate:
    run: [sh, scripts/rotate.sh]
    cwd: .
workflows:
  nightly:
    steps:
      probe: { task: probe }
      rotate: { task: rotate, needs: [probe] }
`;

export const goodFiles: Readonly<Record<string, string>> = {
  'qinglong.yaml': goodManifest,
  'scripts/probe.sh': '#!/bin/sh\necho up\n',
  'scripts/rotate.sh': 'echo rotated\n',
};

/** Writes files below a directory; those whose text begins with `#!` can be executed. */
export function writePackage(
  directory: string,
  files: Readonly<Record<string, string | Uint8Array>> = goodFiles,
): string {
  for (const [path, content] of Object.entries(files)) {
    const target = join(directory, path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, content);
    chmodSync(target, typeof content === 'string' && content.startsWith('#!') ? 0o755 : 0o644);
  }
  return directory;
}

/** `file:line path: rule` of every mistake; none for a good package. */
export async function packageMistakes(directory: string): Promise<readonly string[]> {
  try {
    await checkPackage(directory);
    return [];
  } catch (error) {
    if (!isEdgeError(error) || error.code !== 'invalid') {
      throw error;
    }
    return error.mistakes.map(({ file, line, path, rule }) => `${file}:${line ?? '-'} ${path}: ${rule}`);
  }
}
