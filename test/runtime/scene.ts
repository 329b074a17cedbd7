// One data directory with its run directory, and engines on it one after another: what a process leaves behind is what
// the next one finds. States that no living process can be stopped in are written through the protocols and by hand, as
// a process that died just there would have left them. Not a test itself.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import tap, { type Test } from 'tap';
import { arrangeRows, compareRecords, foldHistory } from '../../edge-evidence/fold.ts';
import { limits } from '../../src/core/limits.ts';
import type { RunAttempt, RunRows } from '../../src/core/records.ts';
import { readIdentity } from '../../src/executor/attempt-files.ts';
import type { Handlers } from '../../src/executor/handlers.ts';
import { listSession, signalProcess } from '../../src/executor/session.ts';
import { type AttemptPlace, admitAttempt, startAttempt } from '../../src/protocol/attempt.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { type Engine, openEngine } from '../../src/runtime/engine.ts';
import { realAlarm, realClock, realIds } from '../../src/runtime/ports.ts';
import { defaultSettings, type Profile, type RuntimeSettings } from '../../src/runtime/settings.ts';
import { verifyRun } from '../../src/runtime/verification.ts';
import { openSqliteStore } from '../../src/sqlite.ts';
import type { Store } from '../../src/store/store.ts';
import type { Shell } from '../executor/stand.ts';
import { launcherShell } from '../launcher-shell.ts';

export const { bootId } = realClock().observe();

export type SceneOptions = {
  readonly profile?: Profile;
  readonly shell?: readonly string[];
  /** A scene whose data directory this one begins with: nobody holds it. */
  readonly from?: Scene;
};

export type OpenOptions = Partial<RuntimeSettings> & {
  readonly handlers?: Handlers;
  readonly drives?: boolean;
  /** Another one than the scene's. */
  readonly runDirectory?: string;
};

export type Scene = {
  readonly root: string;
  readonly profile: Profile;
  readonly data: string;
  readonly run: string;
  /** What engines have said, line by line. */
  readonly lines: string[];
  open(options?: OpenOptions): Promise<Engine>;
  /** The store alone, as nobody's: nothing is started, watched or stopped. */
  withStore<T>(work: (store: Store) => Promise<T>): Promise<T>;
  /** Installs a package of this manifest (less its head) and these scripts, without anything being started. */
  install(manifest: object, scripts?: Readonly<Record<string, string>>): Promise<void>;
  /** Starts a run of the workflow, without anything of it being started. */
  admit(workflowId?: string): Promise<string>;
  directoryOf(attemptId: string): string;
};

export function createScene(t: Test, options: SceneOptions = {}): Scene {
  const { from, shell = launcherShell ?? ['/bin/sh'] } = options;
  const root = mkdtempSync(join(tmpdir(), 'qinglong-'));
  const place = { root, data: join(root, 'data'), run: join(root, 'run') };
  const profile = from?.profile ?? options.profile ?? 'standalone';
  const given: Place = { ...place, profile, shell, lines: [] };
  if (from !== undefined) {
    cpSync(from.data, given.data, { recursive: true });
  }
  const scene: Scene = {
    ...given,
    async open(openOptions = {}) {
      const engine = await openIn(given, openOptions);
      t.teardown(() => engine.close('detach').catch(() => {}));
      return engine;
    },
    withStore: (work) => withStore(t, given, work),
    async install(manifest, scripts = {}) {
      const engine = await openIn(given, { drives: false });
      const { outcome } = await engine.verbs.install({ path: writePackage(root, manifest, scripts) });
      await engine.close('detach');
      t.equal(outcome.kind, 'installed');
    },
    async admit(workflowId = 'main') {
      const engine = await openIn(given, { drives: false });
      const runId = await startRun(engine, workflowId);
      await engine.close('detach');
      return runId;
    },
    directoryOf: (attemptId) => join(given.run, 'attempts', attemptId),
  };
  t.teardown(() => {
    for (const attemptId of attemptDirectories(scene)) {
      endSession(scene, attemptId);
    }
    rmSync(root, { recursive: true, force: true });
  });
  return scene;
}

type Place = Pick<Scene, 'root' | 'data' | 'run' | 'profile' | 'lines'> & { readonly shell: readonly string[] };

function openIn({ data, run, profile, shell, lines }: Place, options: OpenOptions): Promise<Engine> {
  const { handlers = {}, drives = true, runDirectory = run, ...settings } = options;
  return openEngine({
    data,
    runDirectory,
    settings: { ...defaultSettings(profile), shell, ...settings },
    handlers,
    drives,
    onOutput: null,
    log: (line) => lines.push(line),
    openStore: async (ports) =>
      openSqliteStore({
        data,
        profile,
        ...ports,
        command: 'test',
        socket: null,
        report: {
          failed: (operation_, error) => lines.push(`${operation_?.name ?? 'turn'} failed: ${error}`),
          closedForGood: (error) => lines.push(`closed for good: ${error.message}`),
        },
      }),
  });
}

async function withStore<T>(t: Test, { data, profile }: Place, work: (store: Store) => Promise<T>): Promise<T> {
  const clock = realClock();
  const failures: unknown[] = [];
  const report = { failed: (_: unknown, error: unknown) => failures.push(error), closedForGood: () => {} };
  const ports = { clock, alarm: realAlarm(clock), ids: realIds(clock), trustedFromMs: 0, report };
  const store = openSqliteStore({ data, profile, command: 'test', socket: null, ...ports });
  store.attach({ closing: () => {}, committed: () => {} });
  try {
    return await work(store);
  } finally {
    await store.close();
    t.same(failures, []);
  }
}

function writePackage(root: string, manifest: object, scripts: Readonly<Record<string, string>>): string {
  const head = { schema: 'qinglong/package@v1', name: 'scene', version: '1.0.0' };
  const directory = join(root, 'package');
  const files = { 'qinglong.json': JSON.stringify({ ...head, ...manifest }), ...scripts };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), text, { mode: 0o755 });
  }
  return directory;
}

/** Rules that hold on copies of one data directory in which a package is installed; each begins with a copy. */
export function testOnCopies(
  name: string,
  given: {
    readonly manifest: object;
    readonly scripts?: Readonly<Record<string, string>>;
    readonly profile?: Profile;
    readonly shell?: Shell;
  },
  cases: Readonly<Record<string, (t: Test, scene: Scene) => Promise<void>>>,
): void {
  const { manifest, scripts = {}, profile = 'standalone', shell } = given;
  tap.test(name, { skip: shell?.skip ?? false }, async (t) => {
    const from = createScene(t, { profile });
    await from.install(manifest, scripts);
    for (const [rule, body] of Object.entries(cases)) {
      await t.test(rule, (t) => body(t, createScene(t, { from, ...(shell && { shell: shell.command }) })));
    }
  });
}

export async function startRun({ verbs }: Engine, workflowId = 'main'): Promise<string> {
  const request = { packageName: 'scene', workflowId, idempotencyKey: null, requestedBy: 'test' };
  const outcome = await verbs.start(request);
  if (outcome.kind !== 'created') {
    throw new TypeError(JSON.stringify(outcome));
  }
  return outcome.receipt.runId;
}

/** Ids of attempts that have a directory. */
export function attemptDirectories({ run }: Scene): string[] {
  try {
    return readdirSync(join(run, 'attempts'));
  } catch {
    return [];
  }
}

/** KILLs whoever lives of an attempt's session, as an operator would. */
export function endSession(scene: Scene, attemptId: string): void {
  const identity = readIdentity(scene.directoryOf(attemptId), attemptId);
  for (const row of identity === null ? [] : listSession(identity.pid)) {
    signalProcess(row, 'SIGKILL');
  }
}

/** Crosses the start barrier of a ready step, and goes no further: nothing is launched. */
export async function beginStep(store: Store, runId: string, stepKey: string): Promise<AttemptPlace> {
  const place = { runId, stepRunId: await stepIdOf(store, runId, stepKey) };
  const claim = operation(admitAttempt, { ...place, handlerNames: [], busyOfWorkflow: 0 });
  const claimed = await store.submit(claim);
  if (claimed.kind !== 'claimed' && claimed.kind !== 'existing') {
    throw new TypeError(JSON.stringify(claimed));
  }
  const attempt = { ...place, attemptId: claimed.attemptId };
  const started = await store.submit(operation(startAttempt, attempt));
  if (started.kind !== 'started') {
    throw new TypeError(JSON.stringify(started));
  }
  return attempt;
}

export async function stepIdOf(store: Store, runId: string, stepKey: string): Promise<string> {
  const rows = await rowsOf(store, runId);
  return [...rows.steps.values()].find((step) => step.stepKey === stepKey)?.id ?? '';
}

export async function rowsOf(store: Pick<Store, 'read'>, runId: string): Promise<RunRows> {
  const rows = await store.read(read('wholeRun', { runId }));
  if (rows === null) {
    throw new TypeError(`run ${runId} is unknown`);
  }
  return rows;
}

/** The attempts of a run by number. */
export async function attemptsOf(store: Pick<Store, 'read'>, runId: string): Promise<readonly RunAttempt[]> {
  return [...(await rowsOf(store, runId)).attempts.values()].sort((one, other) => one.number - other.number);
}

/** Waits for the end of a run; answers it as it is then. */
export async function endOf({ runtime, store }: Engine, runId: string): Promise<RunRows> {
  for await (const _event of runtime.follow(runId)) {
    // Its end ends the iteration.
  }
  return rowsOf(store, runId);
}

/** Waits until an event of this type is committed. */
export async function untilEvent({ runtime }: Engine, runId: string, type: string): Promise<void> {
  for await (const event of runtime.follow(runId)) {
    if (event.type === type) {
      return;
    }
  }
  throw new TypeError(`the run ended without ${type}`);
}

export async function eventsOf(store: Pick<Store, 'read'>, runId: string) {
  const { run } = await rowsOf(store, runId);
  const events = [];
  for (let after = 0; after < run.version; after += limits.pageMax) {
    events.push(...(await store.read(read('events', { runId, after, limit: limits.pageMax }))));
  }
  return events;
}

/** History folds to the present, by both folds. */
export async function assertSound(t: Test, store: Pick<Store, 'read'>, runId: string): Promise<void> {
  t.same((await verifyRun({ read: (request) => store.read(request) }, runId)).differences, []);
  const folded = foldHistory(await eventsOf(store, runId));
  t.same(compareRecords(folded, arrangeRows(await rowsOf(store, runId))), []);
}

/** Files of an attempt's directory, as a launcher that is surely gone has left them. */
export type Left = {
  /** A pid that no process has, or that of a stranger. */
  readonly identity?: { readonly pid: number; readonly startTicks: number; readonly bootId?: string };
  readonly taken?: 'by the command' | 'withdrawn';
  readonly exitCode?: number;
};

// Beyond pid_max of any system: nobody has it.
export const nobody = { pid: 2 ** 22 + 1, startTicks: 1 };

export function writeLeft(scene: Scene, { runId, attemptId }: AttemptPlace, left: Left): void {
  const directory = scene.directoryOf(attemptId);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  writeFileSync(join(directory, 'command'), `set -- 'env' '-i' 'QL_RUN_ID=${runId}' '/bin/true'\n`);
  if (left.identity !== undefined) {
    const { pid, startTicks, bootId: boot = bootId } = left.identity;
    const words = `${pid} ${startTicks} ${boot} 1.00 ${pid + 1}`;
    writeFileSync(join(directory, 'identity'), `ql-identity-1 ${attemptId} ${words} end\n`);
  }
  if (left.taken === 'withdrawn') {
    symlinkSync('withdrawn', join(directory, 'taken'));
  } else if (left.taken === 'by the command') {
    writeFileSync(join(directory, 'taken'), `ql-taken-1 ${attemptId} ${2 ** 22 + 3} end\n`);
  }
  if (left.exitCode !== undefined) {
    const uptime = readFileSync('/proc/uptime', 'latin1').split(' ')[0];
    writeFileSync(join(directory, 'receipt'), `ql-receipt-1 ${attemptId} ${left.exitCode} ${uptime} end\n`);
  }
}
