// SIGKILL of the runtime at any moment: nothing runs twice, nothing is left running, the records say what happened.

import { join } from 'node:path';
import t from 'tap';
import {
  attemptDirectories,
  cli,
  createSite,
  listRuns,
  readLines,
  showRun,
  startCli,
  writeTracingPackage,
} from './product.ts';

const steps = { a: [], b: ['a'], c: ['a'], d: ['b', 'c'], e: ['d'] };

for (const profile of ['edge', 'standalone']) {
  t.test(`${profile}: killed at ten moments of a run, each step ran at most once and ended as recorded`, async (t) => {
    // The moments are events of the run itself, so that every phase is met on a machine of any speed: the n-th line
    // that the steps write, and n more turns of the killer's event loop.
    for (let moment = 0; moment < 10; moment += 1) {
      const site = createSite(t);
      const trace = join(site.root, 'trace');
      const directory = writeTracingPackage(join(site.root, 'package'), { trace, steps, work: 'sleep 0.05' });
      const running = startCli(t, site, ['--profile', profile, 'run', directory, '--json']);
      const events = new Promise<void>((resolve) => {
        let seen = 0;
        running.process.stdout?.on('data', (chunk: Buffer) => {
          seen += chunk.toString().split('\n').length - 1;
          if (seen > moment * 2) {
            resolve();
          }
        });
        running.process.once('close', () => resolve());
      });
      await events;
      running.process.kill('SIGKILL');
      t.equal((await running.ended).signal, 'SIGKILL', `moment ${moment}: it was killed before its end`);

      const served = await cli(t, site, 'serve', '--until-idle');
      t.equal(served.code, 0, served.err);
      const [listed] = await listRuns(t, site);
      const { run, steps: shown } = await showRun(t, site, listed?.id ?? '');
      t.equal(run.status, 'succeeded', `moment ${moment}`);
      const begun = readLines(trace).filter((line) => line.startsWith('begin'));
      t.equal(new Set(begun.map((line) => line.split(' ')[1])).size, begun.length, 'no step ran twice');
      t.equal(begun.length, shown.length, 'every step ran');
      t.equal((await cli(t, site, 'verify')).code, 0, 'history folds to the present');
      t.same(attemptDirectories(site), [], 'nothing is left in the run directory');
    }
  });
}
