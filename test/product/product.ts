// Drives the shipped bundle as its users do: real processes, real directories, all below the test's own folder.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { RunInspection } from '../../src/runtime/inspection.ts';
import { type Ended, type Running, type Site, type StartOptions, startProgram, writePackage } from '../program.ts';

export { createSite, type Ended, printed, type Running, type Site, writePackage } from '../program.ts';

export const bundleFile = join(import.meta.dirname, '../../dist/qinglong-edge.cjs');

/** Starts the command line; the test waits for `ended`, and a process that outlives the test is killed. */
export function startCli(
  t: Test,
  site: Site,
  args: readonly string[],
  options: Omit<StartOptions, 'file'> = {},
): Running {
  return startProgram(t, site, args, { file: bundleFile, ...options });
}

export function cli(t: Test, site: Site, ...args: readonly string[]): Promise<Ended> {
  return startCli(t, site, args).ended;
}

/** A package whose every step notes its beginning and its end in one trace file. */
export function writeTracingPackage(
  directory: string,
  options: {
    readonly trace: string;
    readonly steps: Readonly<Record<string, readonly string[]>>;
    /** Shell lines between the two notes. */
    readonly work?: string;
    readonly name?: string;
  },
): string {
  const steps = Object.entries(options.steps).map(
    ([key, needs]) => `      ${key}: { task: work, needs: [${needs.join(', ')}] }`,
  );
  return writePackage(directory, {
    'qinglong.yaml': `schema: qinglong/package@v1
name: ${options.name ?? 'tracing'}
version: 1.0.0
tasks:
  work:
    run: [./scripts/work.sh]
    env: { TRACE: ${options.trace} }
workflows:
  main:
    steps:
${steps.join('\n')}
`,
    'scripts/work.sh': `#!/bin/sh
echo "begin $QL_STEP_KEY $QL_ATTEMPT_NUMBER" >>"$TRACE"
${options.work ?? ':'}
echo "end $QL_STEP_KEY $QL_ATTEMPT_NUMBER" >>"$TRACE"
`,
  });
}

export function readLines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '');
  } catch {
    return [];
  }
}

export async function showRun(t: Test, site: Site, runId: string): Promise<RunInspection> {
  const shown = await cli(t, site, 'runs', 'show', runId, '--json');
  return JSON.parse(shown.out) as RunInspection;
}

export type ListedRun = { readonly id: string; readonly status: string };

export async function listRuns(t: Test, site: Site): Promise<readonly ListedRun[]> {
  const listed = await cli(t, site, 'runs', 'list', '--json');
  return (JSON.parse(listed.out) as { readonly runs: readonly ListedRun[] }).runs;
}

/** Ids of attempts that still have a directory: none is left when everything has ended. */
export function attemptDirectories(site: Site): string[] {
  try {
    return readdirSync(join(site.run, 'attempts'));
  } catch {
    return [];
  }
}
