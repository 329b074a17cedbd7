// Drives the shipped bundle as its users do: real processes, real directories, all below the test's own folder.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Test } from 'tap';
import type { RunInspection } from '../../src/runtime/inspection.ts';

export const bundleFile = join(import.meta.dirname, '../../dist/qinglong-edge.cjs');

export type Ended = {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
};

/** One data directory with the run directory that belongs to it. */
export type Site = { readonly root: string; readonly data: string; readonly run: string };

export function createSite(t: Test): Site {
  const root = mkdtempSync(join(tmpdir(), 'qinglong-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  return { root, data: join(root, 'data'), run: join(root, 'run') };
}

export type Running = {
  readonly process: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout(): string;
  stderr(): string;
};

/** Starts the command line; the test waits for `ended`, and a process that outlives the test is killed. */
export function startCli(
  t: Test,
  site: Site,
  args: readonly string[],
  options: { readonly nodeArgs?: readonly string[] } = {},
): Running {
  const child = spawn(
    process.execPath,
    [...(options.nodeArgs ?? []), bundleFile, '--data', site.data, '--run-dir', site.run, ...args],
    { cwd: site.root, stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env['PATH'], TZ: 'UTC' } },
  );
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString();
  });
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal, out, err }));
  });
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { process: child, ended, stdout: () => out, stderr: () => err };
}

export function cli(t: Test, site: Site, ...args: readonly string[]): Promise<Ended> {
  return startCli(t, site, args).ended;
}

/** Resolves when the process has printed a text on either stream, or has ended. */
export function printed(running: Running, text: string): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (running.stdout().includes(text) || running.stderr().includes(text)) {
        resolve();
      }
    };
    running.process.stdout?.on('data', look);
    running.process.stderr?.on('data', look);
    running.process.once('close', () => resolve());
    look();
  });
}

/** Writes files of a package; those under `scripts/` can be executed. */
export function writePackage(directory: string, files: Readonly<Record<string, string>>): string {
  for (const [name, text] of Object.entries(files)) {
    const file = join(directory, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text, { mode: name.startsWith('scripts/') ? 0o755 : 0o644 });
  }
  return directory;
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
