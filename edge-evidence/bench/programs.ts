// Starts what is measured: the product's bundle as a daemon, and the plain programs of `programs/`. All get the same
// small environment, and none is loaded through TypeScript.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { EdgeError } from '../../src/core/errors.ts';
import type { Site } from '../stress/site.ts';
import type { Bench } from './bench-run.ts';
import type { Profile } from './figure.ts';

export const programFile = (name: string) => join(import.meta.dirname, 'programs', name);
export const libraryFile = ({ dist }: Pick<Bench, 'dist'>) => join(dist, 'index.cjs');
export const postgresFile = ({ dist }: Pick<Bench, 'dist'>) => join(dist, 'qinglong-edge-postgres.cjs');
export const bundleFile = ({ dist }: Pick<Bench, 'dist'>) => join(dist, 'qinglong-edge.cjs');

/** A data directory that does not exist yet, in a place. */
export function siteIn(place: string, name: string, profile: Profile): Site {
  const root = join(place, name);
  mkdirSync(root, { recursive: true });
  return { root, data: join(root, 'data'), run: join(root, 'run'), profile };
}

const environment = () => ({ PATH: process.env['PATH'] ?? '', TZ: 'UTC' });

export type Launch = {
  /** The program of Node; this one by default. */
  readonly node?: string;
  readonly nodeArgs?: readonly string[];
  /** Killed, and failed, after this long. */
  readonly limitMs?: number;
  /** A program and its arguments that lead to Node, such as strace. */
  readonly before?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
};

function launch(args: readonly string[], how: Launch): ChildProcess {
  const { node = process.execPath, nodeArgs = [], before = [], env = {}, limitMs = 300_000 } = how;
  const [program = node, ...rest] = [...before, node, ...nodeArgs, ...args];
  const child = spawn(program, rest, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...environment(), ...env } });
  const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
  child.once('close', () => clearTimeout(timer));
  return child;
}

/** Runs to its end and answers what it wrote to stdout. Throws `unavailable` where it failed. */
async function runToEnd(args: readonly string[], options: Launch): Promise<string> {
  const child = launch(args, options);
  child.stdin?.end();
  let out = '';
  let err = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const [code, signal] = await once(child, 'close');
  if (code !== 0) {
    const hint = err.trim().split('\n').slice(-6).join(' | ') || 'it said nothing';
    throw new EdgeError('unavailable', `${basename(args[0] ?? '')} ended with ${code ?? signal}`, { hint });
  }
  return out;
}

/** Runs one of the measured programs; its answer is the last line it prints. */
export async function runProgram<T>(name: string, options: object, how: Launch = {}): Promise<T> {
  const out = await runToEnd([programFile(name), JSON.stringify(options)], how);
  return JSON.parse(out.trimEnd().split('\n').at(-1) ?? 'null') as T;
}

export function bundleArgs(bench: Pick<Bench, 'dist'>, site: Site, args: readonly string[]): readonly string[] {
  return [bundleFile(bench), '--data', site.data, '--run-dir', site.run, '--profile', site.profile, ...args];
}

/** One command of the bundle, to its end. */
export function runBundle(bench: Pick<Bench, 'dist'>, site: Site, args: readonly string[], how: Launch = {}) {
  return runToEnd(bundleArgs(bench, site, args), how);
}

export type Idling = {
  readonly pid: number;
  /** From the start of the process to its first words. */
  readonly readyMs: number;
  readonly process: ChildProcess;
  /** Asks it to end, and waits for that. */
  end(signal?: NodeJS.Signals): Promise<void>;
};

async function startIdling(args: readonly string[], how: Launch): Promise<Idling> {
  const beganMs = performance.now();
  const child = launch(args, how);
  const ended = once(child, 'close');
  let err = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err = `${err}${text}`.slice(-2_000);
  });
  const isReady = await Promise.race([once(child.stdout!, 'data').then(() => true), ended.then(() => false)]);
  if (!isReady) {
    throw new EdgeError('unavailable', 'a process ended before it was ready', { hint: err.trim() });
  }
  const readyMs = performance.now() - beganMs;
  return {
    pid: child.pid ?? 0,
    readyMs,
    process: child,
    async end(signal = 'SIGTERM') {
      child.kill(signal);
      await ended;
    },
  };
}

/** The product's daemon; resolves when it says that it is ready. */
export function startServe(bench: Pick<Bench, 'dist'>, site: Site, how: Launch = {}): Promise<Idling> {
  return startIdling(bundleArgs(bench, site, ['serve']), how);
}

/** Bare Node with the database of a site open. */
export function startFloor(site: Site, how: Launch = {}): Promise<Idling> {
  return startIdling([programFile('floor.cjs'), join(site.data, 'qinglong.db')], how);
}

export function residentKib(pid: number, field: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
}

type Task = {
  readonly run: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly grace?: string;
};

/** Writes a package and gives its directory. */
export function writePackage(
  directory: string,
  {
    name,
    tasks,
    workflows,
  }: {
    readonly name: string;
    readonly tasks: Readonly<Record<string, Task>>;
    readonly workflows: Readonly<Record<string, { readonly steps: Readonly<Record<string, object>> }>>;
  },
): string {
  mkdirSync(directory, { recursive: true });
  const manifest = { schema: 'qinglong/package@v1', name, version: '1.0.0', tasks, workflows };
  writeFileSync(join(directory, 'qinglong.json'), JSON.stringify(manifest));
  return directory;
}

/** So many steps that do nothing, each behind the one before it. */
export function chainOf(length: number): { readonly steps: Readonly<Record<string, object>> } {
  const steps = Array.from({ length }, (_, index): [string, object] => [
    `s${index}`,
    { task: 'work', needs: index === 0 ? [] : [`s${index - 1}`] },
  ]);
  return { steps: Object.fromEntries(steps) };
}

/** The package of most rows: `main` is a chain, `one` one step of it, `wide` as many side by side as may be. */
export function writeChainPackage(place: string, length: number): string {
  const wide = Array.from({ length: 128 }, (_, index): [string, object] => [`s${index}`, { task: 'work' }]);
  return writePackage(join(place, 'chain'), {
    name: 'chain',
    tasks: { work: { run: ['/bin/true'] } },
    workflows: { main: chainOf(length), one: chainOf(1), wide: { steps: Object.fromEntries(wide) } },
  });
}

/** Whether a program can be started here. */
export function canRun(program: string, ...args: readonly string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

export const hasStrace = () => canRun('strace', '-o', '/dev/null', 'true');
