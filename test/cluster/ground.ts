// What the tests of several runtimes share: a database, processes of the real program on it, and a store beside them to
// start and to look.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { projectRoot } from '../../build/project.ts';
import type { RunRecord } from '../../edge-evidence/stress/records.ts';
import { type Leases, openLeases, openPostgresStore, type PostgresStore } from '../../src/postgres.ts';
import { start } from '../../src/protocol/admit.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { cancelShared } from '../../src/runtime/cluster.ts';
import { inspectRun } from '../../src/runtime/inspection.ts';
import { realAlarm, realClock, realIds } from '../../src/runtime/ports.ts';
import { verifyRun } from '../../src/runtime/verification.ts';
import { openDatabases, type TestDatabases } from '../store/postgres/databases.ts';

export const leaseMs = 2_000;
const sourceProgram = path.join(projectRoot, 'src/postgres.ts');
export const bundledProgram = path.join(projectRoot, 'dist/qinglong-edge-postgres.cjs');

export type Runtime = {
  readonly process: ChildProcess;
  /** Resolves when it serves. */
  readonly ready: Promise<void>;
  readonly closed: Promise<unknown>;
  /** What it said on stderr so far. */
  said(): string;
};

export type Ground = {
  readonly root: string;
  readonly databases: TestDatabases;
  readonly database: string;
  readonly store: PostgresStore;
  readonly leases: Leases;
  /** Starts a runtime whose data, and with it its run directory, has that name: those of one name share a machine. */
  serve(data: string, options?: { readonly url?: string; readonly concurrency?: number }): Runtime;
  call(...words: readonly string[]): Promise<{ readonly code: number; readonly document: unknown }>;
  start(packageName: string, workflowId: string): Promise<string>;
  cancel(runId: string): Promise<unknown>;
  /** Resolves when none of all runs is running, or after `secondsMax`, with the runs that are. */
  idle(secondsMax: number): Promise<readonly string[]>;
  records(): Promise<readonly RunRecord[]>;
  /** What does not fold, in words. */
  verify(): Promise<readonly string[]>;
  close(): Promise<void>;
};

export async function openGround(program = sourceProgram): Promise<Ground> {
  const databases = await openDatabases();
  const database = await databases.create();
  const root = mkdtempSync(path.join(tmpdir(), 'runtimes-'));
  const url = databases.urlOf(database);
  const clock = realClock();
  const ports = { clock, alarm: realAlarm(clock), ids: realIds(clock) };
  const store = await openPostgresStore({ ...ports, url, trustedFromMs: 0, report: { failed: () => {} } });
  const leases = openLeases({ ...ports, url, leaseMs });
  const running = new Set<ChildProcess>();
  const listRuns = async () => {
    const ids: string[] = [];
    let beforeRunId: string | null = null;
    for (;;) {
      const page: readonly { readonly runId: string }[] = await store.read(
        read('runs', { limit: 64, status: null, packageName: null, beforeRunId }),
      );
      ids.push(...page.map(({ runId }) => runId));
      if (page.length < 64) {
        return ids;
      }
      beforeRunId = page.at(-1)!.runId;
    }
  };
  return {
    ...{ root, databases, database, store, leases },
    serve(data, options = {}) {
      const words = ['--data', path.join(root, data), '--lease-ms', `${leaseMs}`];
      const more = ['--concurrency', `${options.concurrency ?? 4}`];
      const started = spawn(process.execPath, [program, '--store', options.url ?? url, ...words, ...more, 'serve'], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      running.add(started);
      let said = '';
      started.stderr.on('data', (bytes) => {
        said += bytes;
      });
      const closed = once(started, 'close').then(() => running.delete(started));
      const ready = Promise.race([once(started.stdout, 'data').then(() => {}), closed.then(() => {})]);
      return { process: started, ready, closed, said: () => said };
    },
    async call(...words) {
      const called = spawn(process.execPath, [program, '--store', url, '--data', path.join(root, 'caller'), ...words], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let out = '';
      called.stdout.on('data', (bytes) => {
        out += bytes;
      });
      const [code] = (await once(called, 'close')) as [number];
      return { code, document: out === '' ? null : JSON.parse(out) };
    },
    async start(packageName, workflowId) {
      const request = { projectId: 'local', packageName, workflowId, idempotencyKey: null, requestedBy: 'test' };
      const outcome = await store.submit(operation(start, request));
      if (outcome.kind !== 'created') {
        throw new TypeError(`not started: ${JSON.stringify(outcome)}`);
      }
      await leases.notify('work');
      return outcome.receipt.runId;
    },
    cancel: (runId) => cancelShared({ ...ports, shared: store, leases }, { runId, requestedBy: 'test' }),
    async idle(secondsMax) {
      const untilMs = clock.observe().uptimeMs + 1_000 * secondsMax;
      for (;;) {
        const { runIds } = await store.read(read('runningRuns', { limit: 64, after: null }));
        if (runIds.length === 0 || clock.observe().uptimeMs > untilMs) {
          return runIds;
        }
        await new Promise<void>((wake) => ports.alarm.set(clock.observe().uptimeMs + 100, wake));
      }
    },
    async records() {
      const records: RunRecord[] = [];
      for (const runId of await listRuns()) {
        const rows = (await store.read(read('wholeRun', { runId })))!;
        const admission = (await store.read(read('admissionOfRun', { runId })))!;
        const { run, steps } = inspectRun(rows, admission, []);
        const events = [];
        for (let after = 0; ; after += 64) {
          const page = await store.read(read('events', { runId, after, limit: 64 }));
          events.push(...page);
          if (page.length < 64) {
            break;
          }
        }
        records.push({ run, steps, events } as unknown as RunRecord);
      }
      return records;
    },
    async verify() {
      const found: string[] = [];
      for (const runId of await listRuns()) {
        const { differences } = await verifyRun(store, runId);
        found.push(...differences.map((difference) => `run ${runId}: ${difference}`));
      }
      return found;
    },
    async close() {
      for (const started of running) {
        const closed = once(started, 'close');
        started.kill('SIGCONT');
        started.kill('SIGKILL');
        await closed;
      }
      await leases.close();
      await store.close();
      await databases.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
