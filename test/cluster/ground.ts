// What the tests of several runtimes share: a database, processes of the real program on it, and a store beside them to
// start and to look.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { projectRoot } from '../../build/project.ts';
import type { RunRecord } from '../../edge-evidence/stress/records.ts';
import type { RunEvent } from '../../src/core/events.ts';
import { limits } from '../../src/core/limits.ts';
import { type Leases, openLeases, openPostgresStore, type PostgresStore } from '../../src/postgres.ts';
import { start } from '../../src/protocol/admit.ts';
import type { CancelOutcome } from '../../src/protocol/cancel.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { cancelShared } from '../../src/runtime/cluster.ts';
import { inspectRun, type RunInspection } from '../../src/runtime/inspection.ts';
import { realAlarm, realClock, realIds } from '../../src/runtime/ports.ts';
import { verifyRun } from '../../src/runtime/verification.ts';
import { openDatabases, type TestDatabases } from '../store/postgres/databases.ts';

export const leaseMs = 2_000;
const sourceProgram = path.join(projectRoot, 'src/postgres.ts');
export const bundledProgram = path.join(projectRoot, 'dist/qinglong-edge-postgres.cjs');

const clock = realClock();
const ports = { clock, alarm: realAlarm(clock), ids: realIds(clock) };

export type Runtime = {
  readonly process: ChildProcess;
  /** Resolves when it serves. */
  readonly ready: Promise<void>;
  readonly closed: Promise<unknown>;
  /** What it said on stderr so far. */
  said(): string;
};

export type ServeOptions = {
  readonly url?: string;
  readonly concurrency?: number;
  readonly words?: readonly string[];
};

export type Called = { readonly code: number; readonly out: string; readonly err: string };

/** Those of one database, and what they share. */
export class Ground {
  readonly root = mkdtempSync(path.join(tmpdir(), 'runtimes-'));
  readonly databases: TestDatabases;
  readonly database: string;
  readonly store: PostgresStore;
  readonly leases: Leases;
  readonly #program: string;
  readonly #running = new Set<ChildProcess>();

  private constructor(parts: Pick<Ground, 'databases' | 'database' | 'store' | 'leases'>, program: string) {
    this.databases = parts.databases;
    this.database = parts.database;
    this.store = parts.store;
    this.leases = parts.leases;
    this.#program = program;
  }

  static async open(program = sourceProgram): Promise<Ground> {
    const databases = await openDatabases();
    const database = await databases.create();
    const url = databases.urlOf(database);
    const store = await openPostgresStore({ ...ports, url, trustedFromMs: 0, report: { failed: () => {} } });
    return new Ground({ databases, database, store, leases: openLeases({ ...ports, url, leaseMs }) }, program);
  }

  /** Starts a runtime whose data, and with it its run directory, has that name: those of one name share a machine. */
  serve(data: string, options: ServeOptions = {}): Runtime {
    const words = [
      '--lease',
      `${leaseMs / 1_000}`,
      '--concurrency',
      `${options.concurrency ?? 4}`,
      ...(options.words ?? []),
      'serve',
    ];
    const { process: started, called } = this.spawn(data, { url: options.url, words });
    let said = '';
    started.stderr?.on('data', (bytes) => {
      said += bytes;
    });
    const ready = Promise.race([once(started.stdout!, 'data'), called]).then(() => {});
    return { process: started, ready, closed: called, said: () => said };
  }

  /** Asks something of the database as an operator does, of whom nothing is on this machine yet. */
  ask(...words: readonly string[]): Promise<Called> {
    return this.spawn('caller', { words }).called;
  }

  /** Calls the program, which answers in JSON but for `--text`; `--without-store` names no database. */
  spawn(
    data: string,
    { url, words }: { readonly url?: string | undefined; readonly words: readonly string[] },
  ): { readonly process: ChildProcess; readonly called: Promise<Called> } {
    const isNamed = !words.includes('--without-store');
    const given = words.filter((word) => word !== '--text' && word !== '--without-store');
    const place = isNamed ? ['--store', url ?? this.databases.urlOf(this.database)] : [];
    const format = words.includes('--text') ? [] : ['--json'];
    const own = ['--data', path.join(this.root, data), '--run-dir', path.join(this.root, `${data}.run`)];
    const started = spawn(process.execPath, [this.#program, ...place, ...own, ...format, ...given], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#running.add(started);
    const said = { out: '', err: '' };
    started.stdout.on('data', (bytes) => {
      said.out += bytes;
    });
    started.stderr.on('data', (bytes) => {
      said.err += bytes;
    });
    const called = once(started, 'close').then(([code]) => {
      this.#running.delete(started);
      return { code: code as number, ...said };
    });
    return { process: started, called };
  }

  async start(packageName: string, workflowId: string): Promise<string> {
    const request = { projectId: 'local', packageName, workflowId, idempotencyKey: null, requestedBy: 'test' };
    const outcome = await this.store.submit(operation(start, request));
    if (outcome.kind !== 'created') {
      throw new TypeError(`not started: ${JSON.stringify(outcome)}`);
    }
    await this.leases.notify('work');
    return outcome.receipt.runId;
  }

  cancel(runId: string): Promise<CancelOutcome> {
    return cancelShared({ ...ports, shared: this.store, leases: this.leases }, { runId, requestedBy: 'test' });
  }

  async show(runId: string): Promise<RunInspection> {
    const rows = await this.store.read(read('wholeRun', { runId }));
    const admission = await this.store.read(read('admissionOfRun', { runId }));
    return inspectRun(rows!, admission!, []);
  }

  /** Looks from time to time until something that surely happens has happened. */
  async until(hasHappened: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await hasHappened())) {
      await new Promise<void>((wake) => ports.alarm.set(ports.clock.observe().uptimeMs + 20, wake));
    }
  }

  /** Resolves when none of all runs is running, or after `secondsMax`, with the runs that are. */
  async idle(secondsMax: number): Promise<readonly string[]> {
    const untilMs = ports.clock.observe().uptimeMs + 1_000 * secondsMax;
    for (;;) {
      const { runIds } = await this.store.read(read('runningRuns', { limit: 64, after: null }));
      if (runIds.length === 0 || ports.clock.observe().uptimeMs > untilMs) {
        return runIds;
      }
      await new Promise<void>((wake) => ports.alarm.set(ports.clock.observe().uptimeMs + 100, wake));
    }
  }

  async records(): Promise<readonly RunRecord[]> {
    const records: RunRecord[] = [];
    for (const runId of await listRuns(this.store)) {
      const rows = (await this.store.read(read('wholeRun', { runId })))!;
      const admission = (await this.store.read(read('admissionOfRun', { runId })))!;
      const { run, steps } = inspectRun(rows, admission, []);
      records.push({ run, steps, events: await listEvents(this.store, runId) } as unknown as RunRecord);
    }
    return records;
  }

  /** What does not fold, in words. */
  async verify(): Promise<readonly string[]> {
    const found: string[] = [];
    for (const runId of await listRuns(this.store)) {
      const { differences } = await verifyRun(this.store, runId);
      found.push(...differences.map((difference) => `run ${runId}: ${difference}`));
    }
    return found;
  }

  async close(): Promise<void> {
    for (const started of this.#running) {
      const closed = once(started, 'close');
      started.kill('SIGCONT');
      started.kill('SIGKILL');
      await closed;
    }
    await this.leases.close();
    await this.store.close();
    await this.databases.close();
    rmSync(this.root, { recursive: true, force: true });
  }
}

async function listRuns(store: PostgresStore): Promise<readonly string[]> {
  const ids: string[] = [];
  let beforeRunId: string | null = null;
  for (;;) {
    const page: readonly { readonly runId: string }[] = await store.read(
      read('runs', { limit: limits.pageMax, status: null, packageName: null, beforeRunId }),
    );
    ids.push(...page.map(({ runId }) => runId));
    if (page.length < limits.pageMax) {
      return ids;
    }
    beforeRunId = page.at(-1)!.runId;
  }
}

async function listEvents(store: PostgresStore, runId: string): Promise<readonly RunEvent[]> {
  const events: RunEvent[] = [];
  for (let after = 0; ; after += limits.pageMax) {
    const page = await store.read(read('events', { runId, after, limit: limits.pageMax }));
    events.push(...page);
    if (page.length < limits.pageMax) {
      return events;
    }
  }
}
