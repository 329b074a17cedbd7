// The same random script on SQLite and on PostgreSQL: every answer, and in the end everything that can be read, has to
// be the same, digests included.
//   npm run differential                         1,000 scripts
//   npm run differential -- --scripts 50 --from 7
import { deepStrictEqual } from 'node:assert';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { createRandom } from '../../edge-evidence/random.ts';
import { sha256 } from '../../src/core/hash.ts';
import { limits } from '../../src/core/limits.ts';
import type { Plan } from '../../src/core/plan.ts';
import type { Ids } from '../../src/core/ports.ts';
import type { Operation } from '../../src/protocol/protocol.ts';
import { type ReadRequest, read } from '../../src/protocol/reads.ts';
import { verifyRun } from '../../src/runtime/verification.ts';
import { drawStep, type Sight } from './script.ts';
import { edge, type Ground, type OpenWorld, postgres } from './stores.ts';
import { packageName, planMain, projectId, type World } from './world.ts';

export type Pair = { readonly openSqlite: OpenWorld; readonly openPostgres: OpenWorld };

const stepsMax = 60;
const place = { projectId, packageName };

/** What both stores need for as long as the ground is there. */
export async function preparePair(ground: Ground): Promise<Pair> {
  return { openSqlite: await edge.prepare(ground), openPostgres: await postgres.prepare(ground) };
}

/** Plays one script; throws an error that tells the first difference. Returns how many operations there were. */
export async function playScript(seed: number, pair: Pair): Promise<number> {
  const ground = createGround();
  try {
    const sqlite = await pair.openSqlite(ground, { ids: countingIds(seed) });
    const other = await pair.openPostgres(ground, { ids: countingIds(seed) });
    return await play(seed, sqlite, other);
  } finally {
    await ground.close();
  }
}

async function play(seed: number, sqlite: World, other: World): Promise<number> {
  const random = createRandom(seed);
  const plans: Plan[] = [];
  let count = 0;
  for (let index = 0; index < stepsMax; index += 1) {
    const runs = await readRuns(sqlite);
    const sight: Sight = { random: random.fork(`step ${index}`), runs, plans };
    const step = drawStep(sight, index);
    if ('advanceMs' in step) {
      sqlite.clock.advance(step.advanceMs);
      other.clock.advance(step.advanceMs);
      continue;
    }
    const answers = await Promise.all([sqlite, other].map((world) => submitAll(world, step.operations)));
    const names = step.operations.map(({ name }) => name).join(', ');
    deepStrictEqual(answers[1], answers[0], `seed ${seed}, step ${index}: ${names}`);
    count += step.operations.length;
    plans.push(...(await makePlan(sqlite, `${seed}-${index}`)));
  }
  await compareAll(seed, sqlite, other);
  return count;
}

async function submitAll({ store }: World, operations: readonly Operation[]) {
  const settled = await Promise.allSettled(operations.map((each) => store.submit(each)));
  return settled.map((each) => (each.status === 'fulfilled' ? each.value : tellError(each.reason)));
}

/** Errors are told apart by their codes; their words name tables. */
function tellError(error: unknown) {
  return { error: error instanceof Error && 'code' in error ? error.code : `${error}` };
}

async function readRuns({ store }: World) {
  const listed = await store.read(read('runs', { limit: 64, beforeRunId: null, status: null, packageName: null }));
  const rows = await Promise.all(listed.map(({ runId }) => store.read(read('wholeRun', { runId }))));
  return rows.filter((each) => each !== null);
}

/** A plan of the present generation that nobody has admitted yet; nothing where there is none. */
async function makePlan({ store, clock }: World, suffix: string): Promise<readonly Plan[]> {
  const head = await store.read(read('package', place));
  if (head === null) {
    return [];
  }
  const planned = planMain(head, { suffix, nowMs: clock.now.wallMs });
  return 'refusal' in planned ? [] : [planned.plan];
}

async function compareAll(seed: number, sqlite: World, other: World): Promise<void> {
  const compare = async (request: ReadRequest) => {
    const [expected, found] = await Promise.all(
      [sqlite, other].map(({ store }) => store.read(request).catch(tellError)),
    );
    // Rows of node:sqlite have no prototype.
    deepStrictEqual(
      structuredClone(found),
      structuredClone(expected),
      `seed ${seed}: ${request.name} ${JSON.stringify(request.args)}`,
    );
    return expected;
  };
  for (const request of await listReads(sqlite)) {
    await compare(request);
  }
  for (const { run } of await readRuns(sqlite)) {
    const [expected, found] = await Promise.all([sqlite, other].map(({ store }) => verifyRun(store, run.id)));
    deepStrictEqual(found, expected, `seed ${seed}: verification of ${run.id}`);
    deepStrictEqual(expected?.differences, [], `seed ${seed}: ${run.id} is sound`);
  }
}

/** Everything that can be asked about what is there. */
async function listReads(world: World): Promise<readonly ReadRequest[]> {
  const runs = await readRuns(world);
  const { store } = world;
  const installations = await store.read(read('installations', { projectId }));
  const publishers = await store.read(read('publishers', {}));
  return [
    ...runs.flatMap(listRunReads),
    ...listPages(runs.at(Math.floor(runs.length / 2))?.run.id ?? null),
    ...installations.flatMap(({ target }): ReadRequest[] => [
      read('startFacts', target),
      read('lockCondemnation', { ...place, lockDigest: target.lockDigest }),
      read('packageFiles', { lockDigest: target.lockDigest }),
    ]),
    ...publishers.map(({ keyId }) => read('publisher', { keyId })),
    read('installations', { projectId }),
    read('publishers', {}),
    read('package', place),
    read('packages', { projectId }),
    read('settings', place),
  ] as ReadRequest[];
}

function listRunReads({ run, steps }: Awaited<ReturnType<typeof readRuns>>[number]): readonly ReadRequest[] {
  const { id: runId, planId, idempotencyKey } = run;
  const pages = Array.from({ length: Math.ceil(run.version / limits.pageMax) }, (_, index) => index * limits.pageMax);
  const start = { projectId, idempotencyKey: idempotencyKey ?? '' };
  return [
    read('run', { runId }),
    read('wholeRun', { runId }),
    read('plan', { runId }),
    ...pages.map((after) => read('events', { runId, after, limit: limits.pageMax })),
    read('events', { runId, after: 2, limit: 3 }),
    read('eventCount', { runId, types: ['step.created', 'attempt.claimed'] }),
    ...[...steps.keys()].map((stepRunId) => read('step', { runId, stepRunId })),
    read('admission', { planId }),
    read('admissionOfRun', { runId }),
    read('admissionOfStart', start),
    read('keyOfPlan', { planId }),
    read('keyOfStart', start),
    read('isRunKnown', { runId }),
    read('retriesOfRun', { runId, limit: 64 }),
    read('packageOfRun', { runId }),
    read('setAside', { runId }),
  ] as readonly ReadRequest[];
}

function listPages(beforeRunId: string | null): readonly ReadRequest[] {
  const statuses = [null, 'running', 'succeeded', 'failed', 'cancelled', 'timed_out'] as const;
  return [
    ...statuses.flatMap((status) => [
      read('runs', { limit: 64, beforeRunId: null, status, packageName: null }),
      read('runs', { limit: 3, beforeRunId, status, packageName }),
    ]),
    ...[1, 2, 64].flatMap((limit) => [
      read('candidates', { limit, after: null }),
      read('readySteps', { limit, after: null }),
      read('runningRuns', { limit, after: null }),
      read('condemnedRuns', { limit, after: null }),
      read('activeSteps', { limit }),
      read('allSetAside', { limit }),
      read('strayRuns', { limit }),
    ]),
    read('readySteps', { limit: 64, after: null, except: [`${packageName}/main`] }),
    read('busyOfWorkflow', { packageName, workflowId: 'main' }),
    read('runCounts', {}),
    read('runIds', { prefix: 'run', limit: 64 }),
    read('runIds', { prefix: '', limit: 5 }),
  ] as readonly ReadRequest[];
}

/** Both stores draw the same ids, each in its own order of asking. */
function countingIds(seed: number): Ids {
  let count = 0;
  return {
    fresh() {
      count += 1;
      const digits = sha256(`${seed} ${count}`);
      return `${count.toString(16).padStart(8, '0')}-0000-7000-8000-${digits.slice(0, 12)}`;
    },
  };
}

function createGround() {
  const ends: (() => unknown)[] = [];
  return {
    teardown: (end: () => unknown) => {
      ends.push(end);
    },
    testdir() {
      const folder = mkdtempSync(path.join(tmpdir(), 'ql-differential-'));
      ends.push(() => rmSync(folder, { recursive: true, force: true }));
      return folder;
    },
    /** Last opened, first closed, as tests do. */
    async close() {
      for (let end = ends.pop(); end !== undefined; end = ends.pop()) {
        await end();
      }
    },
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { scripts: { type: 'string', default: '1000' }, from: { type: 'string', default: '1' } },
  });
  const [from, scripts] = [Number(values.from), Number(values.scripts)];
  const ground = createGround();
  let [operations, failed, isStopped] = [0, 0, false];
  // Whoever stops it leaves no server behind.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      isStopped = true;
    });
  }
  const beganMs = performance.now();
  try {
    const pair = await preparePair(ground as Ground);
    for (let seed = from; seed < from + scripts && !isStopped; seed += 1) {
      try {
        operations += await playScript(seed, pair);
      } catch (error) {
        failed += 1;
        process.stdout.write(`seed ${seed} failed: ${error instanceof Error ? error.message : error}\n`);
      }
    }
  } finally {
    await ground.close();
  }
  const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1);
  process.stdout.write(`${scripts} scripts with ${operations} operations in ${seconds} s, ${failed} failed\n`);
  process.exitCode = failed === 0 ? 0 : 1;
}

if (import.meta.main) {
  await main();
}
