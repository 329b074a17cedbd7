// Which servers and databases a store opens, and what migrations make of one.
import t from 'tap';
import { migratePostgres } from '../../../src/postgres.ts';
import { readCatalog } from '../../../src/store/postgres/catalog.ts';
import { catalogManifest } from '../../../src/store/postgres/catalog-manifest.ts';
import { Connection } from '../../../src/store/postgres/connection.ts';
import { migrations } from '../../../src/store/postgres/migrations.generated.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const databases = await openServer(t);

async function createEmpty(t: Parameters<typeof createDatabase>[0]): Promise<string> {
  const database = await databases.createEmpty();
  t.teardown(() => databases.drop(database));
  return database;
}

t.test('the manifest is what the migrations make', async (t) => {
  const connection = await Connection.open(databases.urlOf('migrated'));
  t.teardown(() => connection.end());
  // Written anew by: node test/store/postgres/write-catalog.ts
  t.same(await readCatalog(connection), catalogManifest);
});

t.test('migrating is done once, by a login that need be no superuser where the roles are there', async (t) => {
  const database = await createEmpty(t);
  await databases.query('postgres', 'CREATE ROLE migrator LOGIN IN ROLE ql3_owner');
  await databases.query(database, `GRANT CREATE ON DATABASE ${database} TO migrator`);
  const url = databases.urlOf(database, 'migrator');
  t.same(
    await migratePostgres({ url }),
    migrations.map(({ id }) => id),
  );
  t.same(await migratePostgres({ url }), []);
  const { store } = await openScene(t, databases.urlOf(database));
  t.match(store.info, {
    profile: 'cluster',
    durability: 'on',
    engine: /^PostgreSQL \d/,
    capability: { name: 'control-core', version: 46 },
  });
});

t.test('two who migrate at the same time make one schema', async (t) => {
  const url = databases.urlOf(await createEmpty(t));
  const applied = await Promise.all([migratePostgres({ url }), migratePostgres({ url })]);
  t.same(applied.map(({ length }) => length).sort(), [0, migrations.length]);
  await openScene(t, url);
});

t.test('a database that is not migrated, or half, is refused and says what it lacks', async (t) => {
  const empty = await createEmpty(t);
  await t.rejects(openScene(t, databases.urlOf(empty)), { code: 'unavailable', message: /lacks pg-0044-baseline/ });
  const half = await createDatabase(t, databases);
  await databases.query(half, "DELETE FROM ql3.migrations WHERE id LIKE 'pg-0046%'");
  await t.rejects(openScene(t, databases.urlOf(half)), { code: 'unavailable', message: /lacks pg-0046/ });
});

t.test('a newer database, or one whose migration had another text, is refused', async (t) => {
  const newer = await createDatabase(t, databases);
  await databases.query(newer, `INSERT INTO ql3.migrations (id, sha256) VALUES ('pg-0099-later', repeat('a', 64))`);
  await t.rejects(openScene(t, databases.urlOf(newer)), { code: 'unavailable', message: /newer/ });
  await t.rejects(migratePostgres({ url: databases.urlOf(newer) }), { code: 'unavailable', message: /newer/ });
  const other = await createDatabase(t, databases);
  await databases.query(other, `UPDATE ql3.migrations SET sha256 = repeat('b', 64) WHERE id LIKE 'pg-0045%'`);
  await t.rejects(openScene(t, databases.urlOf(other)), { code: 'damaged', message: /pg-0045/ });
});

t.test('every kind of change of the schema is named', async (t) => {
  const changes: readonly [string, RegExp][] = [
    ['ALTER TABLE ql3.runs ADD COLUMN extra int', /table runs differs/],
    ['ALTER TABLE ql3.runs DROP CONSTRAINT runs_status_check', /table runs differs/],
    ['DROP INDEX ql3.running_runs', /index running_runs is missing/],
    ['CREATE TABLE ql3.mine (a int)', /table mine is not part of it/],
    ['DROP TRIGGER run_events_stay ON ql3.run_events', /trigger run_events_stay is missing/],
    ['ALTER TABLE ql3.run_events DISABLE TRIGGER run_events_stay', /trigger run_events_stay differs/],
    ['GRANT SELECT ON ql3.publishers TO ql3_runtime', /table publishers differs/],
    ['GRANT UPDATE (record) ON ql3.run_events TO PUBLIC', /table run_events differs/],
    [`CREATE OR REPLACE FUNCTION ql3.append(changes jsonb) RETURNS void LANGUAGE sql AS ''`, /function append differs/],
    ['ALTER DOMAIN ql3.counter DROP CONSTRAINT counter_check', /domain counter differs/],
    ['GRANT CREATE ON SCHEMA ql3 TO ql3_runtime', /schema ql3 differs/],
    ['UPDATE ql3.capabilities SET version = 44', /capability is control-core 44/],
  ];
  for (const [change, message] of changes) {
    const database = await createDatabase(t, databases);
    await databases.query(database, change);
    await t.rejects(openScene(t, databases.urlOf(database)), { code: 'damaged', message }, change);
  }
});

t.test('a database that would lose what was told is refused', async (t) => {
  const database = await createDatabase(t, databases);
  await databases.query('postgres', `ALTER DATABASE ${database} SET synchronous_commit = off`);
  await t.rejects(openScene(t, databases.urlOf(database)), { code: 'unavailable', message: /do not wait/ });
  const latin = `${database}_latin`;
  await databases.query('postgres', `CREATE DATABASE ${latin} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`);
  t.teardown(() => databases.drop(latin));
  await t.rejects(openScene(t, databases.urlOf(latin)), { code: 'unavailable', message: /LATIN1/ });
});
