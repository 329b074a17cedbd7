// Field cases: crash recovery. What becomes of commands whose runtime was killed, of the whole machine's end, of rows
// that are damaged, and of a directory that somebody holds.
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { attemptDirectories, cli, createSite, printed, type Running, type Site, startCli } from '../product/product.ts';
import {
  ask,
  commandsGone,
  commandsOf,
  type Environment,
  follow,
  install,
  kill,
  killCommands,
  linesOf,
  makeGate,
  packageOf,
  profiles,
  runPackage,
  serve,
  show,
  startRun,
  statesOf,
  stop,
  type Task,
  wrote,
} from './scene.ts';

/** Notes its beginning and its own pid, waits at the gate, and notes its end. */
const gated = 'echo "begin $$ $QL_RUN_ID" >>"$ROOT/trace"; read x <"$ROOT/gate"; echo end >>"$ROOT/trace"';
const anotherBoot: Environment = { QINGLONG_EDGE_BOOT_ID: 'another-boot' };

/** A runtime whose one command is at the gate; what follows is the test's. */
async function runGated(t: Test, site: Site, profile: string, task: Task = {}) {
  const gate = makeGate(t, site);
  const steps = { a: { shell: gated, ...task }, b: { shell: 'true', needs: ['a'] } };
  const { running } = runPackage(t, site, profile, packageOf(site, steps));
  await wrote(site, 'trace');
  const [, pid = '', runId = ''] = linesOf(site, 'trace')[0]!.split(' ');
  return { gate, running, runId, pid };
}

for (const profile of profiles) {
  t.test(`C040: ${profile}, a command that outlives its runtime is taken over, and never are there two`, async (t) => {
    const site = createSite(t);
    const retry = { limit: 2, on: ['failed', 'timed_out', 'lost'] };
    const { gate, running, runId, pid } = await runGated(t, site, profile, { retry });
    await kill(running);
    const second = await serve(t, site);
    t.ok(
      commandsOf(site).some((entry) => `${entry.pid}` === pid),
      'the very same process',
    );
    await kill(second);
    const third = startCli(t, site, ['serve', '--until-idle']);
    await printed(third, ' serves ');
    t.same(linesOf(site, 'trace'), [`begin ${pid} ${runId}`]);
    gate.open();
    t.equal((await third.ended).code, 0);
    t.same(statesOf(await show(t, site, runId)), { a: ['succeeded', 1], b: ['succeeded', 1] });
    t.same(linesOf(site, 'trace'), [`begin ${pid} ${runId}`, 'end']);
    t.same(commandsOf(site), []);
  });

  for (const code of [0, 7]) {
    t.test(`C040: ${profile}, a command that ends with ${code} while no runtime is there is recorded so`, async (t) => {
      const site = createSite(t);
      const { gate, running, runId } = await runGated(t, site, profile, { shell: `${gated}; exit ${code}` });
      await kill(running);
      gate.open();
      await wrote(site, 'trace', 2);
      await commandsGone(site);
      t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
      const shown = await show(t, site, runId);
      t.match(shown.steps[0]?.attempts, [{ status: code === 0 ? 'succeeded' : 'failed', exitCode: code }]);
      t.equal(linesOf(site, 'trace').length, 2);
      t.same(attemptDirectories(site), []);
    });
  }

  t.test(`C040: ${profile}, what is left of a deadline goes on counting after the runtime was killed`, async (t) => {
    const site = createSite(t);
    const { running, runId } = await runGated(t, site, profile, { timeout: '700ms', grace: '250ms' });
    await kill(running);
    t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
    const shown = await show(t, site, runId);
    t.same(statesOf(shown), { a: ['timed_out', 1], b: ['skipped', 0] });
    t.same(commandsOf(site), []);
    t.equal(linesOf(site, 'trace').length, 1);
  });
}

/** Everything that a machine loses with its power. */
async function losePower(site: Site, runtime: Running): Promise<void> {
  await kill(runtime);
  await killCommands(site);
}

const afterReboot: Readonly<Record<string, { readonly env: Environment; readonly hasRunDirectory: boolean }>> = {
  'another boot, its run directory gone': { env: anotherBoot, hasRunDirectory: false },
  'another boot, its run directory still there': { env: anotherBoot, hasRunDirectory: true },
  'the same boot, every process killed': { env: {}, hasRunDirectory: true },
};

for (const profile of profiles) {
  for (const [what, { env, hasRunDirectory }] of Object.entries(afterReboot)) {
    t.test(`C041: ${profile}, ${what}: the attempt is lost, and no row says that it runs`, async (t) => {
      // What waits: the next slot of a schedule fires.
      const site = createSite(t);
      const { running, runId } = await runGated(t, site, profile);
      await losePower(site, running);
      if (!hasRunDirectory) {
        rmSync(site.run, { recursive: true });
      }
      const served = await startCli(t, site, ['serve', '--until-idle'], { env }).ended;
      t.equal(served.code, 0, served.err);
      const shown = await show(t, site, runId);
      t.match(shown.steps[0]?.attempts, [{ status: 'lost', exitCode: null }]);
      t.same(statesOf(shown), { a: ['failed', 1], b: ['skipped', 0] });
      t.equal(shown.run.status, 'failed');
      t.same(linesOf(site, 'trace').length, 1, 'not once more without leave');
    });

    t.test(`C041: ${profile}, ${what}: a task that allows it is tried again, and its tries are counted`, async (t) => {
      const site = createSite(t);
      const retry = { limit: 1, backoff: '10ms', on: ['lost'] };
      const { gate, running, runId } = await runGated(t, site, profile, { retry });
      await losePower(site, running);
      if (!hasRunDirectory) {
        rmSync(site.run, { recursive: true });
      }
      const second = startCli(t, site, ['serve', '--until-idle'], { env });
      await wrote(site, 'trace', 2);
      gate.open();
      t.equal((await second.ended).code, 0);
      const shown = await show(t, site, runId);
      t.same(statesOf(shown), { a: ['succeeded', 2], b: ['succeeded', 1] });
      t.match(shown.steps[0]?.attempts, [{ status: 'lost' }, { status: 'succeeded' }]);
    });
  }
}

t.test('C041: a task that allows one retry is lost twice and then failed: the count survives', async (t) => {
  const site = createSite(t);
  const retry = { limit: 1, backoff: '10ms', on: ['lost'] };
  const { running, runId } = await runGated(t, site, 'edge', { retry });
  await losePower(site, running);
  const second = await serve(t, site, anotherBoot);
  await wrote(site, 'trace', 2);
  await losePower(site, second);
  const third = { QINGLONG_EDGE_BOOT_ID: 'a-third-boot' };
  t.equal((await startCli(t, site, ['serve', '--until-idle'], { env: third }).ended).code, 0);
  const shown = await show(t, site, runId);
  t.same(statesOf(shown), { a: ['failed', 2], b: ['skipped', 0] });
  t.equal(linesOf(site, 'trace').length, 2);
});

/** Alters the row of a step of the run behind the product's back, against every check. */
function damageStep(t: Test, site: Site, { runId, number }: { readonly runId: string; readonly number: number }): void {
  const db = new DatabaseSync(join(site.data, 'qinglong.db'), { enableForeignKeyConstraints: false, timeout: 5_000 });
  try {
    db.exec('PRAGMA ignore_check_constraints = ON');
    const update = db.prepare(`UPDATE RunRecords SET status = 'exploded'
      WHERE number = ? AND runKey = (SELECT runKey FROM RunIdentities WHERE runId = ?)`);
    t.equal(update.run(number, runId).changes, 1);
  } finally {
    db.close();
  }
}

// Rows that are damaged while nobody holds the directory: test/product/damage.test.ts.
const damagedSteps = [
  { what: 'the step whose command runs', number: 1 },
  { what: 'a step that waits for it', number: 2 },
] as const;

for (const [profile, { what, number }] of profiles.flatMap((one) => damagedSteps.map((step) => [one, step] as const))) {
  t.test(
    `C043: ${profile}, ${what} damaged under a daemon sets its run aside; others go on, and health tells`,
    async (t) => {
      const site = createSite(t);
      const gate = makeGate(t, site);
      const steps = { a: { shell: gated }, b: { shell: 'true', needs: ['a'] } };
      await install(t, site, profile, packageOf(site, steps));
      await install(t, site, profile, packageOf(site, { a: { shell: 'true' } }, { name: 'healthy' }));
      const daemon = await serve(t, site);
      const bad = await startRun(t, site);
      await wrote(site, 'trace');
      damageStep(t, site, { runId: bad, number });
      gate.open();
      const good = await startRun(t, site, 'healthy/main');
      t.equal((await follow(t, site, good)).run.status, 'succeeded');
      t.equal((await cli(t, site, 'runs', 'show', bad)).code, 5);
      t.match((await cli(t, site, 'runs', 'list')).out, /damaged|set aside/);
      const doctor = await cli(t, site, 'doctor');
      t.match(doctor.out, /1 run/);
      const verified = await cli(t, site, 'verify');
      t.equal(verified.code, 5);
      t.match(verified.out + verified.err, bad);
      t.notMatch(verified.out + verified.err, good);
      await stop(t, daemon);
      t.match(daemon.stderr(), bad, 'its log names it');
      t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0, 'and the next one starts');
    },
  );
}

for (const profile of profiles) {
  t.test(
    `C045: ${profile}, a second daemon is refused by name of the first, whose death frees the directory`,
    async (t) => {
      const site = createSite(t);
      await install(t, site, profile, packageOf(site, { a: { shell: 'true' } }));
      const daemon = await serve(t, site);
      const refused = await cli(t, site, 'serve');
      t.equal(refused.code, 4);
      t.match(refused.err, new RegExp(`^qinglong-edge: busy: .*held by process ${daemon.process.pid} \\(serve\\)`));
      t.match(refused.err, /end it first: .*(kill|stop)/, 'and what to do');
      t.equal((await follow(t, site, await startRun(t, site))).run.status, 'succeeded', 'the first one is unharmed');
      await kill(daemon);
      const holder = JSON.parse(readFileSync(join(site.data, 'holder.json'), 'utf8'));
      t.equal(holder.pid, daemon.process.pid, 'its last words still lie there');
      const second = await serve(t, site);
      t.equal((await follow(t, site, await startRun(t, site))).run.status, 'succeeded');
      await stop(t, second);
    },
  );
}

t.test('C045: of two daemons that start at once, one holds the directory and the other says who does', async (t) => {
  const site = createSite(t);
  await install(t, site, 'edge', packageOf(site, { a: { shell: 'true' } }));
  const both = [startCli(t, site, ['serve']), startCli(t, site, ['serve'])];
  const refused = await Promise.race(both.map((running) => running.ended.then((ended) => ({ running, ended }))));
  t.equal(refused.ended.code, 4, refused.ended.err);
  const winner = both.find((running) => running !== refused.running)!;
  t.match(refused.ended.err, `process ${winner.process.pid}`);
  t.equal((await follow(t, site, await startRun(t, site))).run.status, 'succeeded');
  const listed = await ask<{ readonly runs: readonly unknown[] }>(t, site, ['runs', 'list']);
  t.equal(listed.runs.length, 1);
  await stop(t, winner);
});
