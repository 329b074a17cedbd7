// What the field cases share: a daemon, runs in it, commands that wait for the test, and who lives. Not a test itself.
import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync, readFileSync, watch, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { findProcessesOf, killProcess, type ProcessEntry, readProcessEntry } from '../../edge-evidence/processes.ts';
import type { EventInspection, RunInspection } from '../../src/runtime/inspection.ts';
import { bundleFile, cli, type Running, type Site, startCli, writePackage } from '../product/product.ts';
import { printed } from '../program.ts';

export const profiles = ['edge', 'standalone'] as const;

/** Environments that a daemon or a command line gets. */
export type Environment = Readonly<Record<string, string>>;

export type Task = {
  readonly shell?: string;
  readonly run?: readonly string[];
  readonly [field: string]: unknown;
};

type Steps = Readonly<Record<string, Task & { readonly needs?: readonly string[] }>>;

/** A package of one workflow `main`, whose every step has a task of its own; `$ROOT` is the site. */
export function packageOf(
  site: Site,
  steps: Steps,
  options: {
    readonly name?: string;
    readonly workflow?: object;
    readonly files?: Readonly<Record<string, string>>;
  } = {},
): string {
  const { name = 'case', workflow = {}, files = {} } = options;
  const tasks = Object.entries(steps).map(([key, { needs: _, env, ...task }]) => [
    key,
    { ...task, env: { ROOT: site.root, ...(env as object | undefined) } },
  ]);
  const places = Object.entries(steps).map(([key, { needs = [] }]) => [key, { task: key, needs }]);
  const manifest = {
    schema: 'qinglong/package@v1',
    name,
    version: '1.0.0',
    tasks: Object.fromEntries(tasks),
    workflows: { main: { ...workflow, steps: Object.fromEntries(places) } },
  };
  return writePackage(join(site.root, name), { 'qinglong.json': JSON.stringify(manifest), ...files });
}

/** Makes the data directory with this package in it. */
export async function install(t: Test, site: Site, profile: string, directory: string): Promise<void> {
  const { code, err } = await cli(t, site, '--profile', profile, 'package', 'install', directory);
  t.equal(code, 0, err);
}

/** A daemon that is ready. */
export async function serve(t: Test, site: Site, env: Environment = {}): Promise<Running> {
  const running = startCli(t, site, ['serve'], { env });
  await printed(running, ' serves ');
  return running;
}

export async function kill(running: Running): Promise<void> {
  running.process.kill('SIGKILL');
  await running.ended;
}

/** Ends a daemon as a service manager does. */
export async function stop(t: Test, running: Running): Promise<void> {
  running.process.kill('SIGTERM');
  const { code, err } = await running.ended;
  t.equal(code, 0, err);
}

/** What a command prints with `--json`; fails the test where it does not end with `code`. */
export async function ask<T>(t: Test, site: Site, args: readonly string[], code = 0): Promise<T> {
  const ended = await cli(t, site, ...args, '--json');
  t.equal(ended.code, code, `${args.join(' ')}: ${ended.out}${ended.err}`);
  return JSON.parse(ended.out || ended.err) as T;
}

export async function startRun(t: Test, site: Site, workflow = 'case/main'): Promise<string> {
  return (await ask<{ readonly runId: string }>(t, site, ['workflow', 'start', workflow])).runId;
}

export function show(t: Test, site: Site, runId: string): Promise<RunInspection> {
  return ask(t, site, ['runs', 'show', runId]);
}

/** Follows a run to its end, and calls `onEvent` for each of its events. */
export async function follow(
  t: Test,
  site: Site,
  runId: string,
  onEvent: (event: EventInspection) => void = () => {},
): Promise<RunInspection> {
  const running = startCli(t, site, ['runs', 'events', runId, '--follow', '--json']);
  let rest = '';
  running.process.stdout?.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      onEvent(JSON.parse(line) as EventInspection);
    }
  });
  const { code, err } = await running.ended;
  t.equal(code, 0, err);
  return show(t, site, runId);
}

export type Foreground = {
  readonly running: Running;
  /** What `run` told so far. */
  readonly events: readonly EventInspection[];
  /** The run at its end, and the exit code of the program. */
  result(): Promise<RunInspection & { readonly code: number | null }>;
};

/** Installs a package and runs it in the foreground. */
export function runPackage(
  t: Test,
  site: Site,
  profile: string,
  directory: string,
  options: {
    readonly env?: Environment;
    readonly input?: string;
    readonly onEvent?: (event: EventInspection) => void;
  } = {},
): Foreground {
  const { onEvent = () => {}, ...start } = options;
  const running = startCli(t, site, ['--profile', profile, 'run', directory, '--json'], start);
  const events: EventInspection[] = [];
  let result: RunInspection | null = null;
  let rest = '';
  running.process.stdout?.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const told = JSON.parse(line) as (EventInspection | RunInspection) & { readonly type: string };
      if (told.type === 'result') {
        result = told as unknown as RunInspection;
      } else {
        events.push(told as EventInspection);
        onEvent(told as EventInspection);
      }
    }
  });
  return {
    running,
    events,
    async result() {
      const { code, err } = await running.ended;
      t.ok(result, `it came to its end: ${err}`);
      return { ...result!, code };
    },
  };
}

/** `step key: status` and the number of tries, for all steps. */
export function statesOf({ steps }: RunInspection): Record<string, readonly [string, number]> {
  return Object.fromEntries(steps.map(({ stepKey, status, attemptCount }) => [stepKey, [status, attemptCount]]));
}

/** Resolves when `isTrue` answers true; it is asked again whenever something in the site's own folder changes. */
export function seen(site: Site, isTrue: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(site.root, () => look());
    const look = () => {
      if (isTrue()) {
        watcher.close();
        resolve();
      }
    };
    look();
  });
}

/** Lines of a file in the site's folder that are whole. */
export function linesOf(site: Site, name: string): readonly string[] {
  try {
    return readFileSync(join(site.root, name), 'utf8').split('\n').slice(0, -1);
  } catch {
    return [];
  }
}

/** Resolves when a file of the site's folder has so many lines. */
export function wrote(site: Site, name: string, lines = 1): Promise<void> {
  return seen(site, () => linesOf(site, name).length >= lines);
}

/**
 * What a command waits at: `read x <"$ROOT/gate"` goes on once the test has opened it, and meets the end of the file
 * when the test is over.
 */
export function makeGate(t: Test, site: Site, name = 'gate'): { open(): void } {
  const file = join(site.root, name);
  spawnSync('mkfifo', [file]);
  const descriptor = openSync(file, constants.O_RDWR | constants.O_NONBLOCK);
  t.teardown(() => closeSync(descriptor));
  return { open: () => void writeSync(descriptor, 'go\n') };
}

/** Who lives of a site, without the product's own processes: commands, launchers, pumps, and what they left. */
export function commandsOf(site: Site): readonly ProcessEntry[] {
  const all = findProcessesOf(site.root);
  const own = all.filter(({ pid }) => argumentsOf(pid).includes(bundleFile));
  const sessions = new Set(own.map(({ sessionId }) => sessionId));
  // One that was ending while it was looked at cannot be told apart from others, and is none any more.
  return all.filter((entry) => !sessions.has(entry.sessionId) && isAlive(entry));
}

/** Ends all of them at once, as a machine does that loses its power. */
export async function killCommands(site: Site): Promise<void> {
  commandsOf(site).forEach(killProcess);
  await commandsGone(site);
}

/** Resolves when none of them lives any more. The end of a process of others is no event: it is looked for. */
export async function commandsGone(site: Site): Promise<void> {
  while (commandsOf(site).length > 0) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export function isAlive({ pid, startTicks }: ProcessEntry): boolean {
  const now = readProcessEntry(pid);
  return now?.startTicks === startTicks && !now.isOver;
}

function argumentsOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
