// Everything that a database of ours holds, in short: for tests that say that nothing was written.
import type { TestDatabases } from './databases.ts';

/** Every table with the count and the digest of its rows, but for those that are left out. */
export async function fingerprintOf(
  databases: TestDatabases,
  database: string,
  leftOut: readonly string[] = [],
): Promise<unknown> {
  const tables = await databases.query(
    database,
    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'ql3' ORDER BY table_name",
  );
  const names = tables.map(({ table_name: name }) => `${name}`).filter((name) => !leftOut.includes(name));
  const counts = names.map((name) => {
    return `SELECT '${name}' AS name, count(*) AS count, md5(coalesce(string_agg(x::text, '' ORDER BY x::text), ''))
      FROM ql3.${name} AS x`;
  });
  return databases.query(database, counts.join(' UNION ALL '));
}
