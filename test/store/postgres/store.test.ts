// What only several sessions and several stores on one database can show: order, races, round trips.
import t from 'tap';
import { operation } from '../../../src/protocol/protocol.ts';
import { read } from '../../../src/protocol/reads.ts';
import { assertBothFolds } from '../../contract/news.ts';
import {
  admitPlan,
  attemptAdmission,
  beginStep,
  endAttempt,
  exitZero,
  finishStep,
  installRevision,
  makePlan,
  rowsOf,
  sampleRevision,
  startMain,
  startRun,
  stepOf,
} from '../../contract/world.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const databases = await openServer(t);

const chain = sampleRevision({ steps: { a: [], b: ['a'], c: ['b'] } });

t.test('an admission costs two round trips, and so does an end with all that follows it', async (t) => {
  const scene = await openScene(t, databases.urlOf(await createDatabase(t, databases)));
  const { store } = scene;
  await installRevision(scene, chain);
  const costOf = async (work: () => Promise<unknown>) => {
    const before = store.roundTrips;
    await work();
    return store.roundTrips - before;
  };
  const plan = await makePlan(scene);
  t.equal(await costOf(() => admitPlan(scene, plan)), 2, 'admission');
  t.equal(await costOf(() => admitPlan(scene, plan)), 2, 'exact replay');
  t.equal(await costOf(() => startMain(scene)), 2, 'start');
  const { id: stepRunId } = await stepOf(scene, plan.runId, 'a');
  const place = { runId: plan.runId, stepRunId };
  t.equal(await costOf(() => store.submit(attemptAdmission(place))), 2, 'admission of an attempt');
  const attempt = await beginStep(scene, plan.runId, 'a');
  t.equal(await costOf(() => endAttempt(scene, attempt, exitZero)), 2, 'end and advance');
  t.equal(await costOf(() => store.read(read('wholeRun', { runId: plan.runId }))), 1, 'a look');
});

t.test('many at once, on few sessions, of one package: each is admitted and ends', async (t) => {
  const scene = await openScene(t, databases.urlOf(await createDatabase(t, databases)), { connectionsMax: 4 });
  await installRevision(scene, chain);
  const runIds = await Promise.all(Array.from({ length: 40 }, () => startRun(scene)));
  t.equal(new Set(runIds).size, 40);
  await Promise.all(
    runIds.map(async (runId) => {
      for (const step of ['a', 'b', 'c']) {
        await finishStep(scene, runId, step);
      }
    }),
  );
  for (const runId of runIds) {
    t.equal((await rowsOf(scene, runId)).run.status, 'succeeded');
  }
  await assertBothFolds(t, scene, runIds[0]!);
  t.same(scene.failures, []);
});

t.test('what is submitted for one run is carried out in its order', async (t) => {
  const scene = await openScene(t, databases.urlOf(await createDatabase(t, databases)));
  await installRevision(scene, chain);
  const runId = await startRun(scene);
  const seen: number[] = [];
  const looks = Array.from({ length: 20 }, (_, index) =>
    scene.store.submit(
      operation(
        {
          name: 'look',
          load: () => ({ run: read('run', { runId }) }),
          decide: () => {
            seen.push(index);
            return { outcome: null };
          },
        },
        {},
      ),
    ),
  );
  await Promise.all(looks);
  t.same(
    seen,
    looks.map((_look, index) => index),
  );
});

t.test('two stores that race admit one run for a key, one attempt for an epoch, and lose nothing', async (t) => {
  const url = databases.urlOf(await createDatabase(t, databases));
  const first = await openScene(t, url);
  const second = await openScene(t, url, { testClock: first.clock });
  await installRevision(first, sampleRevision({ steps: { one: [] } }));
  for (let round = 0; round < 12; round += 1) {
    const outcomes = await Promise.all([first, second].map((scene) => startMain(scene, `key-${round}`)));
    const kinds = outcomes.map(({ kind }) => kind).sort();
    t.same(kinds, ['created', 'existing'], `round ${round}`);
    const created = outcomes.find(({ kind }) => kind === 'created') as { receipt: { runId: string } };
    const { runId } = created.receipt;
    const { id: stepRunId } = await stepOf(first, runId, 'one');
    const admitted = await Promise.all(
      [first, second].map(({ store }) => store.submit(attemptAdmission({ runId, stepRunId }))),
    );
    t.same(admitted.map(({ kind }) => kind).sort(), ['claimed', 'existing'], `attempt of round ${round}`);
    const attempts = (await rowsOf(second, runId)).attempts;
    t.equal(attempts.size, 1);
    const place = { runId, stepRunId, attemptId: [...attempts.keys()][0]! };
    const begun = await beginStep(first, runId, 'one');
    t.same(begun, place);
    const ends = await Promise.all([first, second].map((scene) => endAttempt(scene, place, exitZero)));
    t.same(ends.map(({ kind }) => kind).sort(), ['completed', 'settled'], `end of round ${round}`);
    t.equal((await rowsOf(second, runId)).run.status, 'succeeded');
    await assertBothFolds(t, second, runId);
  }
  t.same([...first.failures, ...second.failures], []);
});

t.test('more than 256 at once are told that it is busy; after close nothing is taken', async (t) => {
  const scene = await openScene(t, databases.urlOf(await createDatabase(t, databases)));
  const looks = Array.from({ length: 257 }, () => scene.store.read(read('runCounts', {})));
  const settled = await Promise.allSettled(looks);
  t.equal(settled.filter(({ status }) => status === 'fulfilled').length, 256);
  t.match(settled.at(-1), { status: 'rejected', reason: { code: 'busy' } });
  const last = scene.store.read(read('runCounts', {}));
  const closed = scene.store.close();
  t.match(await last, { runningCount: 0 }, 'what was accepted drains first');
  await t.rejects(scene.store.read(read('runCounts', {})), { code: 'unavailable' });
  await closed;
});

t.test('decisions are made at the time of the database', async (t) => {
  const database = await createDatabase(t, databases);
  const scene = await openScene(t, databases.urlOf(database), {
    observe: (databaseMs) => ({ wallMs: databaseMs + 86_400_000, uptimeMs: 1, bootId: 'boot' }),
  });
  const timeOf = async () => {
    const rows = await databases.query(database, 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now');
    return Number(rows[0]?.['now']) + 86_400_000;
  };
  const before = await timeOf();
  await installRevision(scene, chain);
  const { createdAtMs } = (await rowsOf(scene, await startRun(scene))).run;
  t.ok(createdAtMs >= Math.floor(before) && createdAtMs <= Math.ceil(await timeOf()));
});
