// A daemon whose lock was taken from under it writes nothing beside another: it stops, and leaves its commands to that.
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { until } from '../executor/until.ts';
import { cli, createSite, listRuns, printed, readLines, showRun, startCli, writeTracingPackage } from './product.ts';

for (const profile of ['edge', 'standalone']) {
  t.test(`${profile}: lock.db is removed under a daemon: it ends with exit 4, and the next one goes on`, async (t) => {
    const site = createSite(t);
    const [trace, gate] = [join(site.root, 'trace'), join(site.root, 'gate')];
    execFileSync('mkfifo', [gate]);
    const directory = writeTracingPackage(join(site.root, 'package'), {
      trace,
      steps: { a: [], b: ['a'] },
      work: `read x <"${gate}"`,
    });
    t.equal((await cli(t, site, '--profile', profile, 'package', 'install', directory)).code, 0);
    const first = startCli(t, site, ['serve']);
    await printed(first, 'socket');
    t.equal((await cli(t, site, 'workflow', 'start', 'tracing/main')).code, 0);
    await until(() => readLines(trace).length === 1);
    rmSync(join(site.data, 'lock.db'));
    await writeFile(gate, 'go\n');
    const ended = await first.ended;
    t.equal(ended.code, 4, ended.err);
    t.match(ended.err, /lock\.db was removed or replaced while this process held it/);
    const second = startCli(t, site, ['serve', '--until-idle']);
    await until(() => readLines(trace).length === 3);
    await writeFile(gate, 'go\n');
    t.equal((await second.ended).code, 0);
    const [listed] = await listRuns(t, site);
    t.equal((await showRun(t, site, listed?.id ?? '')).run.status, 'succeeded');
    t.same(
      readLines(trace).map((line) => line.split(' ').slice(0, 2).join(' ')),
      ['begin a', 'end a', 'begin b', 'end b'],
    );
    t.equal((await cli(t, site, 'verify')).code, 0);
  });
}
