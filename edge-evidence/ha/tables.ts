// Every row of every table of a server's database, so that two servers can be compared.
import type { Server } from './server.ts';

type Table = { readonly name: string; readonly rows: number; readonly digest: string };

/** What two servers do not have alike; with how many tables and rows there were to compare. */
export async function compareTables(
  left: Server,
  right: Server,
): Promise<{ readonly tables: number; readonly rows: number; readonly differences: readonly string[] }> {
  const [ours, theirs] = [await readTables(left), await readTables(right)];
  const names = [...new Set([...ours, ...theirs].map(({ name }) => name))];
  const find = (tables: readonly Table[], name: string) => tables.find((table) => table.name === name);
  const differences = names.flatMap((name) => {
    const [one, other] = [find(ours, name), find(theirs, name)];
    const rows = `${one?.rows ?? 'no'} and ${other?.rows ?? 'no'} rows`;
    return one?.digest === other?.digest ? [] : [`${name} differs: ${rows}`];
  });
  return { tables: names.length, rows: ours.reduce((sum, { rows }) => sum + rows, 0), differences };
}

async function readTables(server: Server): Promise<readonly Table[]> {
  const listed = await server.ask<{ name: string }>(
    `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
     WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`,
  );
  const tables: Table[] = [];
  for (const { name } of listed) {
    const [found] = await server.ask<{ rows: string; digest: string }>(
      `SELECT count(*) AS rows, md5(coalesce(string_agg(t::text, E'\\n' ORDER BY t::text COLLATE "C"), '')) AS digest
       FROM ${name} AS t`,
    );
    tables.push({ name, rows: Number(found?.rows), digest: `${found?.digest}` });
  }
  return tables;
}
