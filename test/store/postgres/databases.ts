// Databases for tests on one server: one that is migrated once, and copies of it.
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { startPostgres, type TestServer } from '../../../edge-evidence/postgres-server.ts';
import { migratePostgres } from '../../../src/postgres.ts';

export type TestDatabases = {
  readonly server: TestServer;
  /** A fresh migrated database; returns its name. */
  create(): Promise<string>;
  /** An empty database; returns its name. */
  createEmpty(): Promise<string>;
  drop(database: string): Promise<void>;
  /** Where a store finds the database, as the superuser or as another login. */
  urlOf(database: string, user?: string): string;
  /** Runs statements in a database, as the superuser, and returns the rows of the last one. */
  query(database: string, sql: string): Promise<readonly Record<string, unknown>[]>;
  close(): Promise<void>;
};

const template = 'migrated';

export async function openDatabases(settings: Readonly<Record<string, string>> = {}): Promise<TestDatabases> {
  const server = await startPostgres(settings);
  const urlOf = (database: string, user = server.superuser) =>
    `postgres://${user}@localhost:${server.port}/${database}?host=${encodeURIComponent(server.host)}`;
  const query = async (database: string, sql: string) => {
    const client = new pg.Client({ connectionString: urlOf(database) });
    client.on('error', () => {});
    await client.connect();
    try {
      const results = (await client.query(sql)) as pg.QueryResult | pg.QueryResult[];
      return [results].flat().at(-1)?.rows ?? [];
    } finally {
      await client.end();
    }
  };
  const make = async (clause: string) => {
    const name = `db_${randomUUID().replaceAll('-', '')}`;
    await query('postgres', `CREATE DATABASE ${name} ${clause}`);
    return name;
  };
  try {
    await query('postgres', `CREATE DATABASE ${template}`);
    await migratePostgres({ url: urlOf(template) });
  } catch (error) {
    await server.close();
    throw error;
  }
  return {
    server,
    create: () => make(`TEMPLATE ${template}`),
    createEmpty: () => make(''),
    drop: async (database) => {
      await query('postgres', `DROP DATABASE ${database} WITH (FORCE)`);
    },
    urlOf,
    query,
    close: () => server.close(),
  };
}
