// Recovery that is itself killed, before and behind each of its commits, again and again: in the end every command ran
// as often as is recorded, and its record is what it did.
import { execFileSync } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { listSession, readProcess, signalProcess } from '../../src/executor/session.ts';
import { killer } from './killer.ts';
import {
  attemptDirectories,
  cli,
  createSite,
  listRuns,
  readLines,
  type Site,
  showRun,
  startCli,
  writePackage,
} from './product.ts';

const manifest = `schema: qinglong/package@v1
name: left
version: 1.0.0
tasks:
  ends: { run: [./scripts/step.sh], env: { EXIT: "3" } }
  waits: { run: [./scripts/step.sh], env: { EXIT: "0" } }
  dies: { run: [./scripts/step.sh], env: { EXIT: "0" } }
  again: { run: [./scripts/step.sh], env: { EXIT: "0" }, retry: { limit: 1, backoff: 10ms, on: [lost] } }
workflows:
  main:
    steps:
      ends: { task: ends }
      waits: { task: waits }
      dies: { task: dies }
      again: { task: again }
      next: { task: waits, needs: [waits] }
`;

// Each waits for a FIFO of its own, so that the test decides who ends when.
const script = `#!/bin/sh
root="$QL_PACKAGE_DIR/../../.."
echo "begin $QL_STEP_KEY $$" >>"$root/trace"
read x <"$root/gate-$QL_STEP_KEY"
echo "end $QL_STEP_KEY $$" >>"$root/trace"
exit "$EXIT"
`;

const keys = ['again', 'dies', 'ends', 'next', 'waits'] as const;

const openGate = (site: Site, key: string) => writeFileSync(join(site.root, `gate-${key}`), 'go\n');

const begun = (site: Site, key: string) =>
  readLines(join(site.root, 'trace')).filter((line) => line.startsWith(`begin ${key} `));

/** Resolves when the trace has so many beginnings of a step. */
async function untilBegun(site: Site, key: string, count = 1): Promise<void> {
  while (begun(site, key).length < count) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Kills the session of a command, its launcher included. */
function killSession(site: Site, key: string): void {
  const { sessionId } = readProcess(Number(begun(site, key).at(-1)?.split(' ')[2]))!;
  for (const row of listSession(sessionId)) {
    signalProcess(row, 'SIGKILL');
  }
}

/** A daemon was killed while four commands ran; one has ended since, two were killed with their launchers. */
async function leave(t: Test, site: Site, profile: string): Promise<void> {
  for (const key of keys) {
    execFileSync('mkfifo', [join(site.root, `gate-${key}`)]);
  }
  const directory = writePackage(join(site.root, 'package'), { 'qinglong.yaml': manifest, 'scripts/step.sh': script });
  t.equal((await cli(t, site, '--profile', profile, 'package', 'install', directory)).code, 0);
  const daemon = startCli(t, site, ['--concurrency', '4', 'run', directory]);
  for (const key of ['ends', 'waits', 'dies', 'again']) {
    await untilBegun(site, key);
  }
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  openGate(site, 'ends');
  killSession(site, 'dies');
  killSession(site, 'again');
}

async function assertTrue(t: Test, site: Site): Promise<void> {
  const [listed] = await listRuns(t, site);
  const { run, steps } = await showRun(t, site, listed?.id ?? '');
  t.equal(run.status, 'failed');
  const shown = Object.fromEntries(
    steps.map(({ stepKey, status, attempts }) => [stepKey, [status, ...attempts.map((attempt) => attempt.status)]]),
  );
  t.same(shown, {
    again: ['succeeded', 'lost', 'succeeded'],
    dies: ['failed', 'lost'],
    ends: ['failed', 'failed'],
    next: ['succeeded', 'succeeded'],
    waits: ['succeeded', 'succeeded'],
  });
  t.equal(steps.find(({ stepKey }) => stepKey === 'ends')?.attempts[0]?.exitCode, 3);
  for (const key of keys) {
    t.equal(begun(site, key).length, key === 'again' ? 2 : 1, `commands of ${key}`);
  }
  t.equal((await cli(t, site, 'verify')).code, 0);
  t.same(attemptDirectories(site), []);
}

for (const profile of ['edge', 'standalone']) {
  for (const point of ['before', 'after'] as const) {
    t.test(`${profile}: killed ${point} every commit of its recovery, one after the other`, async (t) => {
      const site = createSite(t);
      await leave(t, site, profile);
      const hook = join(site.root, 'hook.cjs');
      // Each of them gets one commit further, or none: what it does must not matter twice.
      let killedCount = 0;
      for (let count = 0; count < 5; count += 1) {
        writeFileSync(hook, killer(point, 1 + Math.floor(count / 2)));
        const serving = startCli(t, site, ['--concurrency', '4', 'serve'], { nodeArgs: ['-r', hook] });
        if (count === 2) {
          openGate(site, 'waits');
        }
        const ended = await Promise.race([serving.ended, untilQuiet(site)]);
        killedCount += ended?.signal === 'SIGKILL' ? 1 : 0;
        if (ended === null) {
          serving.process.kill('SIGKILL');
          await serving.ended;
        }
      }
      t.ok(killedCount >= 2, `${killedCount} of 5 were killed at a commit`);
      const last = startCli(t, site, ['--concurrency', '4', 'serve', '--until-idle']);
      for (const key of ['again', 'next']) {
        await untilBegun(site, key, key === 'again' ? 2 : 1);
        openGate(site, key);
      }
      t.equal((await last.ended).code, 0);
      await assertTrue(t, site);
    });
  }
}

t.test(
  'commands that run are never looked for in another run directory, by whatever name their data goes',
  async (t) => {
    const site = createSite(t);
    await leave(t, site, 'edge');
    const alias = { ...site, data: join(site.root, 'alias'), run: join(site.root, 'other') };
    symlinkSync(site.data, alias.data);
    const refused = await cli(t, alias, 'serve', '--until-idle');
    t.equal(refused.code, 4);
    t.match(refused.err, `go on with --run-dir ${site.run}`);
    t.equal(begun(site, 'again').length, 1, 'nothing was run again');
    const serving = startCli(t, { ...alias, run: site.run }, ['--concurrency', '4', 'serve', '--until-idle']);
    openGate(site, 'waits');
    for (const key of ['again', 'next']) {
      await untilBegun(site, key, key === 'again' ? 2 : 1);
      openGate(site, key);
    }
    t.equal((await serving.ended).code, 0);
    await assertTrue(t, site);
  },
);

/** Null when both commands that can only be begun by a recovery have begun. */
async function untilQuiet(site: Site): Promise<null> {
  await untilBegun(site, 'again', 2);
  await untilBegun(site, 'next');
  return null;
}
