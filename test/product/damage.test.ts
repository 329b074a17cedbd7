// A damaged run is refused and set aside alone; everything else goes on (field case C043).
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import {
  attemptDirectories,
  cli,
  createSite,
  listRuns,
  type Site,
  startCli,
  writePackage,
  writeTracingPackage,
} from './product.ts';

const alterations: Readonly<Record<string, string>> = {
  'an unknown state': "UPDATE RunRecords SET status = 'exploded' WHERE runKey = 1 AND number = 1",
  'a step row that is missing': 'DELETE FROM RunRecords WHERE runKey = 1 AND number = 1',
  'another version of the run': 'UPDATE RunRecords SET version = version + 1 WHERE runKey = 1 AND number = 0',
  'a plan that is no JSON': `DROP TRIGGER QingLong3PluginPackageWorkflowAdmissionsNeverChange;
    UPDATE QingLong3PluginPackageWorkflowAdmissions SET plan = '{' WHERE runKey = 1`,
};

/** Alters the database behind the product's back, against every check and trigger. */
function alter(site: Site, sql: string): void {
  const db = new DatabaseSync(join(site.data, 'qinglong.db'), { enableForeignKeyConstraints: false });
  try {
    db.exec('PRAGMA ignore_check_constraints = ON');
    const triggers = db.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all() as {
      name: string;
      sql: string;
    }[];
    db.exec(sql);
    // The schema itself stays as it was: only rows are damaged here.
    for (const trigger of triggers) {
      const isThere = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = ?").get(trigger.name);
      if (isThere === undefined) {
        db.exec(trigger.sql);
      }
    }
  } finally {
    db.close();
  }
}

async function startTwo(t: Test, site: Site): Promise<readonly string[]> {
  const trace = join(site.root, 'trace');
  const directory = writeTracingPackage(join(site.root, 'package'), { trace, steps: { a: [], b: ['a'] } });
  t.equal((await cli(t, site, 'package', 'install', directory)).code, 0);
  for (let count = 0; count < 2; count += 1) {
    t.equal((await cli(t, site, 'workflow', 'start', 'tracing/main')).code, 0);
  }
  return (await listRuns(t, site)).map(({ id }) => id).reverse();
}

for (const [what, sql] of Object.entries(alterations)) {
  t.test(`C043: ${what}: that run is set aside with exit 5, and everything else works`, async (t) => {
    const site = createSite(t);
    const [bad = '', good = ''] = await startTwo(t, site);
    alter(site, sql);
    const served = await cli(t, site, 'serve', '--until-idle');
    t.equal(served.code, 0, served.err);
    t.equal((await cli(t, site, 'runs', 'show', bad)).code, 5, 'the damaged run is refused');
    const shown = await cli(t, site, 'runs', 'show', good);
    t.equal(shown.code, 0, shown.err);
    t.match(shown.out, /succeeded/);
    const verified = await cli(t, site, 'verify');
    t.equal(verified.code, 5);
    t.match(verified.out + verified.err, new RegExp(bad), 'verify names it');
    t.notMatch(verified.out + verified.err, new RegExp(good));
    t.match((await cli(t, site, 'doctor')).out, /1 run/, 'doctor tells');
    const listed = await cli(t, site, 'runs', 'list');
    t.equal(listed.code, 0);
    t.match(listed.out, /damaged|set aside/);
    t.equal((await cli(t, site, 'workflow', 'start', 'tracing/main', '--wait')).code, 0, 'new runs start and end');
  });
}

t.test('C043: what is left of a run whose identity was lost bars no new run', async (t) => {
  const site = createSite(t);
  const [, newest = ''] = await startTwo(t, site);
  alter(
    site,
    `DROP TRIGGER RunIdentitiesStay; DROP TRIGGER RunIdentitiesGoLast;
    DELETE FROM RunIdentities WHERE runId = '${newest}'`,
  );
  const started = await cli(t, site, 'workflow', 'start', 'tracing/main', '--wait');
  t.equal(started.code, 0, started.err);
  t.equal((await cli(t, site, 'verify')).code, 5, 'verify finds what is left');
});

const strays: Readonly<Record<string, string>> = {
  'an unknown state of the run itself': "UPDATE RunRecords SET status = 'exploded' WHERE runKey = 1 AND number = 0",
  'no time of admission': 'UPDATE RunRecords SET createdAtMs = NULL WHERE runKey = 1 AND number = 0',
  'no plan digest': 'UPDATE RunRecords SET planDigest = NULL WHERE runKey = 1 AND number = 0',
  'a missing parent': `DROP TRIGGER RunIdentitiesStay; DROP TRIGGER RunIdentitiesGoLast;
    DELETE FROM RunIdentities WHERE runKey = 1`,
};

for (const [what, sql] of Object.entries(strays)) {
  t.test(`C043: ${what}, of which no command is left: set aside at the next start, and health tells`, async (t) => {
    const site = createSite(t);
    const [bad = '', good = ''] = await startTwo(t, site);
    alter(site, sql);
    const served = await cli(t, site, 'serve', '--until-idle');
    t.equal(served.code, 0, served.err);
    t.match(served.err, new RegExp(`${bad}: set aside`));
    for (const command of [['status'], ['doctor']]) {
      const told = await cli(t, site, ...command);
      t.match(told.out, new RegExp(bad), `${command} names it`);
      t.notMatch(told.out, new RegExp(good));
    }
    t.equal((await cli(t, site, 'doctor')).code, 5);
    t.equal((await cli(t, site, 'runs', 'show', bad)).code, 5);
    t.equal((await cli(t, site, 'verify', bad)).code, 5);
    t.equal((await cli(t, site, 'verify', bad, '--clear')).code, 5, 'it cannot be taken back');
    t.match((await cli(t, site, 'runs', 'show', good)).out, /succeeded/, 'the other run went on');
    t.equal((await cli(t, site, 'workflow', 'start', 'tracing/main', '--wait')).code, 0, 'and new ones do');
    const again = await cli(t, site, 'serve', '--until-idle');
    t.notMatch(again.err, /set aside/, 'once is enough');
  });
}

t.test('C043: a run whose own record is damaged while its command runs is set aside by the next holder', async (t) => {
  const site = createSite(t);
  execFileSync('mkfifo', [join(site.root, 'gate')]);
  const manifest = {
    schema: 'qinglong/package@v1',
    name: 'waits',
    version: '1.0.0',
    tasks: { waits: { run: ['/bin/sh', '-c', `read x <'${join(site.root, 'gate')}'`] } },
    workflows: { main: { steps: { a: { task: 'waits' } } } },
  };
  const directory = writePackage(join(site.root, 'package'), { 'qinglong.json': JSON.stringify(manifest) });
  const running = startCli(t, site, ['run', directory]);
  while (!attemptDirectories(site).some((id) => existsSync(join(site.run, 'attempts', id, 'identity')))) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  running.process.kill('SIGKILL');
  await running.ended;
  alter(site, "UPDATE RunRecords SET status = 'exploded' WHERE number = 0");
  const served = await cli(t, site, 'serve', '--until-idle');
  t.match(served.err, /set aside/);
  t.equal((await cli(t, site, 'doctor')).code, 5);
  writeFileSync(join(site.root, 'gate'), 'go\n');
});
