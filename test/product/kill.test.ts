// SIGKILL of the runtime at any moment: nothing runs twice, nothing is left running, the records say what happened.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
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
  writeTracingPackage,
} from './product.ts';

const steps = { a: [], b: ['a'], c: ['a'], d: ['b', 'c'], e: ['d'] };

/** Runs a package and kills the process right after it has told so many committed events. */
async function runAndKill(t: Test, site: Site, args: readonly string[], events: number): Promise<void> {
  const running = startCli(t, site, [...args, '--json']);
  await new Promise<void>((resolve) => {
    let seen = 0;
    running.process.stdout?.on('data', (chunk: Buffer) => {
      seen += chunk.toString().split('\n').length - 1;
      if (seen >= events) {
        resolve();
      }
    });
    running.process.once('close', () => resolve());
  });
  running.process.kill('SIGKILL');
  t.equal((await running.ended).signal, 'SIGKILL', 'it was killed before its end');
}

/** After whatever happened, the next holder brings the run to its one true end. */
async function checkRecovery(t: Test, site: Site, trace: string): Promise<void> {
  const served = await cli(t, site, 'serve', '--until-idle');
  t.equal(served.code, 0, served.err);
  const [listed] = await listRuns(t, site);
  if (listed === undefined) {
    t.same(readLines(trace), [], 'nothing ran without a run');
    return;
  }
  const { run, steps: shown } = await showRun(t, site, listed.id);
  t.equal(run.status, 'succeeded');
  const begun = readLines(trace).filter((line) => line.startsWith('begin'));
  t.same(
    begun.map((line) => line.split(' ')[1]).sort(),
    shown.map(({ stepKey }) => stepKey),
    'each step ran once',
  );
  t.equal(readLines(trace).length, 2 * begun.length, 'every command came to its end');
  t.ok(shown.every(({ attempts }) => attempts.at(-1)?.exitCode === 0));
  t.equal((await cli(t, site, 'verify')).code, 0, 'history folds to the present');
  t.same(attemptDirectories(site), [], 'nothing is left in the run directory');
}

for (const profile of ['edge', 'standalone']) {
  // The moments are events of the run itself, so that every phase is met on a machine of any speed.
  for (let moment = 0; moment < 10; moment += 1) {
    t.test(`C040: ${profile}, killed at moment ${moment}: each step ran once and ended as recorded`, async (t) => {
      const site = createSite(t);
      const trace = join(site.root, 'trace');
      const directory = writeTracingPackage(join(site.root, 'package'), { trace, steps, work: 'sleep 0.05' });
      await runAndKill(t, site, ['--profile', profile, 'run', directory], moment * 2 + 1);
      await checkRecovery(t, site, trace);
    });
  }

  // A chain of n steps takes n + 1 commits: every one of them is met from inside, with its journal half written, and
  // from behind, before anything that follows from it was done.
  for (const point of ['before', 'after'] as const) {
    for (let commit = 1; commit <= 4; commit += 1) {
      t.test(`${profile}, killed ${point} COMMIT ${commit}: each step ran once and ended as recorded`, async (t) => {
        const site = createSite(t);
        const trace = join(site.root, 'trace');
        const chain = { a: [], b: ['a'], c: ['b'] };
        const directory = writeTracingPackage(join(site.root, 'package'), { trace, steps: chain });
        t.equal((await cli(t, site, '--profile', profile, 'package', 'install', directory)).code, 0);
        const hook = join(site.root, 'hook.cjs');
        writeFileSync(hook, killer(point, commit));
        const killed = await startCli(t, site, ['run', directory], { nodeArgs: ['-r', hook] }).ended;
        t.equal(killed.signal, 'SIGKILL');
        await checkRecovery(t, site, trace);
      });
    }
  }
}
