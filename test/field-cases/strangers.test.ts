// Field cases: stopping and process trees. Whoever has the pid that a record names, and is not its process, is a
// stranger: nobody signals it.
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { killProcess, readProcessEntry } from '../../edge-evidence/processes.ts';
import { attemptDirectories, cli, createSite, type Site } from '../product/product.ts';
import { isAlive, kill, killCommands, linesOf, packageOf, profiles, runPackage, show, wrote } from './scene.ts';

/** Fields of `identity`: its mark, the attempt, pid, start ticks, boot id, uptime, pid of the pump, `end`. */
function forgeIdentity(site: Site, forged: Readonly<Record<number, string | number>>): void {
  const [attemptId = ''] = attemptDirectories(site);
  const file = join(site.run, 'attempts', attemptId, 'identity');
  const fields = readFileSync(file, 'utf8').trimEnd().split(' ');
  writeFileSync(file, `${fields.map((field, index) => forged[index] ?? field).join(' ')}\n`);
}

/** A run whose processes are all gone without a word; what its attempt's files say is then the test's. */
async function startAndLoseAll(t: Test, site: Site, profile: string): Promise<string> {
  const shell = 'echo "$QL_RUN_ID" >>"$ROOT/ready"; exec sleep 600';
  const { running } = runPackage(t, site, profile, packageOf(site, { a: { shell } }));
  await wrote(site, 'ready');
  await kill(running);
  await killCommands(site);
  return linesOf(site, 'ready')[0]!;
}

const anotherBoot = '00000000-0000-0000-0000-000000000000';

for (const profile of profiles) {
  for (const which of ['other start ticks', 'another boot', 'the test’s own pid']) {
    t.test(
      `C007: ${profile}, a record with the pid of a stranger (${which}): lost, and nobody is signalled`,
      async (t) => {
        const site = createSite(t);
        const runId = await startAndLoseAll(t, site, profile);
        const stranger = spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore' });
        const entry = readProcessEntry(stranger.pid!)!;
        t.teardown(() => killProcess(entry));
        const pid = which === 'the test’s own pid' ? process.pid : entry.pid;
        const taken = join(site.run, 'attempts', attemptDirectories(site)[0]!, 'taken');
        writeFileSync(taken, readFileSync(taken, 'utf8').replace(/ [0-9]+ end/, ` ${pid} end`));
        const boot = which === 'another boot' ? { 3: entry.startTicks, 4: anotherBoot } : {};
        forgeIdentity(site, { 2: pid, 6: pid, ...boot });
        const served = await cli(t, site, 'serve', '--until-idle');
        t.equal(served.code, 0, served.err);
        const shown = await show(t, site, runId);
        t.match(shown.steps[0]?.attempts, [{ status: 'lost' }]);
        t.equal(shown.run.status, 'failed');
        t.ok(isAlive(entry), 'the stranger lives');
      },
    );
  }

  for (const pid of [0, 1, -1]) {
    t.test(
      `C007: ${profile}, a record with pid ${pid}: left undecided and said, and nobody is signalled`,
      async (t) => {
        const site = createSite(t);
        const runId = await startAndLoseAll(t, site, profile);
        forgeIdentity(site, { 2: pid, 6: pid });
        const served = await cli(t, site, 'serve', '--until-idle');
        t.equal(served.code, 0, served.err);
        t.match(served.err, new RegExp(`run ${runId} is left as it is`));
        t.match((await show(t, site, runId)).steps[0]?.attempts, [{ status: /^(starting|running)$/ }]);
        const cancelled = await cli(t, site, 'runs', 'cancel', runId);
        t.equal(cancelled.code, 0, cancelled.err);
        t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
      },
    );
  }
}
