// A real executor in a temporary run directory, with everything that it started ended and looked for at the end of the
// test. Not a test itself.
import { accessSync, constants, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import tap, { type Test } from 'tap';
import type { Alarm, Clock } from '../../src/core/ports.ts';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import { attemptDirectory, readIdentity } from '../../src/executor/attempt-files.ts';
import { createExecutor, type Executor, type ExecutorOptions } from '../../src/executor/executor.ts';
import { watchFifo } from '../../src/executor/fifo.ts';
import type { CommandSpec } from '../../src/executor/preparation.ts';
import { listSession, type ProcessRow, signalProcess } from '../../src/executor/session.ts';
import { realAlarm, realClock } from '../../src/runtime/ports.ts';
import { launcherShell } from '../launcher-shell.ts';
import { type CollectedOutput, collectOutput } from './collected.ts';

export { type SimulatedTime, simulateTime } from './simulated-time.ts';

export type Shell = { readonly name: string; readonly command: readonly string[]; readonly skip: string | false };

function findBusybox(): string | null {
  const candidates = ['/bin/busybox', '/usr/bin/busybox'];
  return (
    candidates.find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    }) ?? null
  );
}

const busybox = findBusybox();

/** Both shells that the launcher is for. BusyBox is a package of the test machine (`.ci/run` installs it). */
export const shells: readonly Shell[] = [
  { name: '/bin/sh', command: ['/bin/sh'], skip: false },
  {
    name: 'BusyBox ash',
    command: [busybox ?? 'busybox', 'ash'],
    skip: busybox === null ? 'busybox is not installed on this machine' : false,
  },
];

/** For a test that is not run under each of them. */
const chosenShell: Shell =
  launcherShell === null ? shells[0]! : { name: launcherShell.join(' '), command: launcherShell, skip: false };

/** BusyBox's shell takes its own tools first: a test that puts others in their place is run under /bin/sh. */
function shellFor({ shell, toolsPath }: StandOptions): Shell {
  return shell ?? (toolsPath === undefined ? chosenShell : shells[0]!);
}

const outputBytesMaxDefault = 256 * 1024;

export type StandOptions = {
  readonly shell?: Shell;
  readonly time?: { readonly clock: Clock; readonly alarm: Alarm };
  readonly runDirectory?: string;
  readonly toolsPath?: string;
  readonly segmentBytes?: number;
  readonly outputBytesMax?: number;
  readonly startByUptimeMs?: () => number;
  /** Why this machine cannot run the test. */
  readonly skip?: string | false;
};

export type Stand = {
  readonly executor: Executor;
  readonly shell: Shell;
  readonly runDirectory: string;
  /** Prepares and starts. */
  start(spec: Partial<CommandSpec> & { readonly argv: readonly string[] }): string;
  endOf(attemptId: string): Promise<AttemptEnd>;
  /** What a bound leaves of its output. */
  collect(attemptId: string): CollectedOutput;
  run(
    spec: Partial<CommandSpec> & { readonly argv: readonly string[] },
  ): Promise<{ readonly end: AttemptEnd; readonly output: string; readonly attemptId: string }>;
  directoryOf(attemptId: string): string;
  /** The launcher's pid; 0 before it wrote its identity. */
  sessionOf(attemptId: string): number;
  /** Nobody may be left of any session; whoever is, is ended. */
  close(): Promise<void>;
};

/** Neither dead nor past the point of its exit where the kernel has closed its files. */
function isLiving({ pid, isZombie }: ProcessRow): boolean {
  try {
    return !isZombie && readdirSync(`/proc/${pid}/fd`).length > 0;
  } catch {
    return false;
  }
}

/** A pump ends by itself a moment after the last writer. */
async function waitForPump(directory: string): Promise<void> {
  await new Promise<void>((resolve) => watchFifo(path.join(directory, 'pumping'), resolve) ?? resolve());
}

/** Where the tools of the launcher are taken from: BusyBox's own for its shell. */
function makeTools(runDirectory: string): string {
  const folder = path.join(runDirectory, 'tools');
  if (!existsSync(folder)) {
    mkdirSync(folder, { recursive: true });
    for (const tool of ['mkfifo', 'dd', 'wc', 'env']) {
      symlinkSync(busybox ?? '', path.join(folder, tool));
    }
  }
  // Debian's BusyBox has no nice.
  return `${folder}:/usr/bin:/bin`;
}

export type StandBody = (t: Test, stand: Stand) => Promise<void>;

/** A rule that holds under every shell. The stand is closed, and looked through for leftovers, after the body. */
export function testEachShell(name: string, body: StandBody, options: StandOptions = {}): void {
  for (const shell of shells) {
    const skip = shell.skip || options.skip || false;
    tap.test(`${name} (${shell.name})`, { skip }, (t) => withStand(t, { ...options, shell }, body));
  }
}

/** Runs the body on a stand of its own. */
export async function withStand(t: Test, options: StandOptions, body: StandBody): Promise<void> {
  const stand = openStand(t, options);
  try {
    await body(t, stand);
  } finally {
    await stand.close();
  }
}

export function openStand(t: Test, options: StandOptions = {}): Stand {
  const runDirectory = options.runDirectory ?? path.join(t.testdir(), 'run');
  const waiting = new Map<string, (end: AttemptEnd) => void>();
  const ends = new Map<string, AttemptEnd>();
  const executor = openExecutor(runDirectory, options, (attemptId, end) => {
    t.notOk(ends.has(attemptId), 'an end is reported once');
    ends.set(attemptId, end);
    waiting.get(attemptId)?.(end);
  });
  const started: string[] = [];
  const directoryOf = (attemptId: string) => attemptDirectory(runDirectory, attemptId);
  const stand: Stand = {
    executor,
    shell: shellFor(options),
    runDirectory,
    directoryOf,
    sessionOf: (attemptId) => readIdentity(directoryOf(attemptId), attemptId)?.pid ?? 0,
    start(spec) {
      const attemptId = spec.attemptId ?? `at-${started.length + 1}`;
      started.push(attemptId);
      const env = { PATH: '/usr/bin:/bin', QL_ATTEMPT_ID: attemptId };
      executor.prepare(attemptId);
      executor.start({ env, cwd: '/', nice: null, limits: null, user: null, ...spec, attemptId });
      return attemptId;
    },
    async endOf(attemptId) {
      return ends.get(attemptId) ?? new Promise((resolve) => waiting.set(attemptId, resolve));
    },
    collect: (attemptId) =>
      collectOutput(directoryOf(attemptId), attemptId, options.outputBytesMax ?? outputBytesMaxDefault),
    async run(spec) {
      const attemptId = stand.start(spec);
      const end = await stand.endOf(attemptId);
      const { head, tail } = stand.collect(attemptId);
      return { end, output: Buffer.concat([head, tail]).toString(), attemptId };
    },
    async close() {
      const stored = executor.stored();
      const sessions = stored.map(stand.sessionOf);
      executor.close();
      await Promise.all(stored.map((attemptId) => waitForPump(directoryOf(attemptId))));
      const living = sessions.flatMap((pid) => (pid === 0 ? [] : listSession(pid))).filter(isLiving);
      for (const row of living) {
        signalProcess(row, 'SIGKILL');
      }
      t.same(living, [], 'nobody is left of any session');
    },
  };
  return stand;
}

function openExecutor(runDirectory: string, options: StandOptions, onEnd: ExecutorOptions['onEnd']): Executor {
  const clock = options.time?.clock ?? realClock();
  const isBusybox = options.shell?.name === 'BusyBox ash';
  return createExecutor({
    runDirectory,
    clock,
    alarm: options.time?.alarm ?? realAlarm(clock),
    segmentBytes: options.segmentBytes ?? 64 * 1024,
    outputBytesMax: options.outputBytesMax ?? outputBytesMaxDefault,
    shell: shellFor(options).command,
    toolsPath: options.toolsPath ?? (isBusybox ? makeTools(runDirectory) : '/usr/sbin:/usr/bin:/sbin:/bin'),
    startByUptimeMs: options.startByUptimeMs,
    onEnd,
  });
}

/** The exit code of a command that ended by itself, else null. */
export function exitedCode(end: AttemptEnd): number | null {
  return end.kind === 'exited' && end.signal === null ? end.exitCode : null;
}
