// What is built: the program and the library's entry points, and how each becomes a file of dist/.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { PackageJson } from './project.ts';

export type EntryPoint = {
  readonly source: string;
  /** File name below dist/. */
  readonly output: string;
  readonly isProgram: boolean;
};

const program: EntryPoint = { source: 'src/cli/main.ts', output: 'qinglong-edge.cjs', isProgram: true };

/** What collects evidence about the program on a device. A program as well, but plain: it is its own preload. */
export const evidence: EntryPoint = {
  source: 'edge-evidence/program.ts',
  output: 'qinglong-edge-evidence.cjs',
  isProgram: false,
};

/** The cluster's store with its driver inside: the one file that has anything of PostgreSQL. */
export const postgres: EntryPoint = {
  source: 'src/postgres.ts',
  output: 'qinglong-edge-postgres.cjs',
  isProgram: false,
};

/** The program, what collects evidence where package.json names it, and each subpath that package.json exports. */
export function listEntryPoints({ exports, bin }: PackageJson): EntryPoint[] {
  const libraries = Object.values(exports).flatMap((target) => {
    if (typeof target === 'string') {
      return [];
    }
    const output = path.basename(target.default);
    const source = `src/${path.basename(output, '.cjs').replace(/^qinglong-edge-/, '')}.ts`;
    return [{ source, output, isProgram: false }];
  });
  const hasEvidence = Object.values(bin).some((target) => path.basename(target) === evidence.output);
  return [program, ...(hasEvidence ? [evidence] : []), ...libraries];
}

export function hasSource(root: string, entry: EntryPoint): boolean {
  return existsSync(path.join(root, entry.source));
}
