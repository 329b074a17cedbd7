// Starts the program as its users do: real processes, a data and a run directory of the test's own. Not a test itself.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Test } from 'tap';
import { shellEnvironment } from './launcher-shell.ts';

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

export type StartOptions = {
  /** The program: a file that Node runs. */
  readonly file: string;
  readonly nodeArgs?: readonly string[];
  /** Beside a small fixed environment; nothing of the test's own reaches the program. */
  readonly env?: Readonly<Record<string, string>>;
  /** For its standard input; without one it gets none. */
  readonly input?: string;
};

/** Starts the command line; a process that outlives its test is killed. */
export function startProgram(t: Test, site: Site, args: readonly string[], options: StartOptions): Running {
  const { file, nodeArgs = [], env = {}, input } = options;
  const child = spawn(process.execPath, [...nodeArgs, file, '--data', site.data, '--run-dir', site.run, ...args], {
    cwd: site.root,
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], TZ: 'UTC', ...shellEnvironment, ...env },
  });
  // A program may end without having read all of it.
  child.stdin?.on('error', () => {});
  child.stdin?.end(input);
  let [out, err] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text;
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
