// The catalog of the schema as plain data: for each object a fingerprint of what the server tells of it, its grants
// included. Reads only; never decides what a difference means. The words of PostgreSQL 15 to 18 are the same.
import { fingerprint } from '../../core/hash.ts';
import type { Connection } from './connection.ts';
import { ask } from './migrate.ts';

/** Fingerprints by kind and name, such as `table runs`. */
export type Catalog = Readonly<Record<string, string>>;

// What is asked of every kind of object: its name, and one line of each fact.
const columnsSql = `SELECT 'table ' || c.relname AS object,
    concat_ws(
      ' ', a.attnum, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
      a.attgenerated, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
    ) AS fact
  FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
  WHERE c.relnamespace = 'ql3'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'p', 'f')`;
const viewsSql = `SELECT 'table ' || c.relname AS object, pg_catalog.pg_get_viewdef(c.oid) AS fact
  FROM pg_catalog.pg_class AS c
  WHERE c.relnamespace = 'ql3'::regnamespace AND c.relkind IN ('v', 'm')`;
// From 18 on, NOT NULL is a constraint too; it is a fact of its column already.
const constraintsSql = `SELECT coalesce('table ' || c.relname, 'domain ' || t.typname) AS object,
    concat_ws(' ', k.contype, k.convalidated, pg_catalog.pg_get_constraintdef(k.oid)) AS fact
  FROM pg_catalog.pg_constraint AS k
  LEFT JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid
  LEFT JOIN pg_catalog.pg_type AS t ON t.oid = k.contypid
  WHERE k.connamespace = 'ql3'::regnamespace AND k.contype <> 'n'`;
const domainsSql = `SELECT 'domain ' || t.typname AS object,
    concat_ws(' ', pg_catalog.format_type(t.typbasetype, t.typtypmod), t.typnotnull, l.collname) AS fact
  FROM pg_catalog.pg_type AS t
  LEFT JOIN pg_catalog.pg_collation AS l ON l.oid = t.typcollation
  WHERE t.typnamespace = 'ql3'::regnamespace AND t.typtype = 'd'`;
const indexesSql = `SELECT 'index ' || c.relname AS object,
    concat_ws(' ', i.indisvalid, pg_catalog.pg_get_indexdef(c.oid)) AS fact
  FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
  WHERE c.relnamespace = 'ql3'::regnamespace`;
const triggersSql = `SELECT 'trigger ' || g.tgname AS object,
    concat_ws(' ', g.tgenabled, pg_catalog.pg_get_triggerdef(g.oid)) AS fact
  FROM pg_catalog.pg_trigger AS g JOIN pg_catalog.pg_class AS c ON c.oid = g.tgrelid
  WHERE c.relnamespace = 'ql3'::regnamespace AND NOT g.tgisinternal`;
const functionsSql = `SELECT 'function ' || p.proname AS object,
    concat_ws(
      ' ', l.lanname, p.prosecdef, p.provolatile, p.proconfig, pg_catalog.pg_get_userbyid(p.proowner),
      pg_catalog.pg_get_function_arguments(p.oid), pg_catalog.pg_get_function_result(p.oid), p.prosrc,
      pg_catalog.pg_get_function_sqlbody(p.oid)
    ) AS fact
  FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
  WHERE p.pronamespace = 'ql3'::regnamespace`;
const grantsSql = `SELECT granted.object,
    concat_ws(' ', granted.part, coalesce(r.rolname, 'public'), granted.acl.privilege_type, granted.acl.is_grantable)
      AS fact
  FROM (
    SELECT 'table ' || c.relname AS object, '' AS part, pg_catalog.aclexplode(c.relacl) AS acl
    FROM pg_catalog.pg_class AS c WHERE c.relnamespace = 'ql3'::regnamespace
    UNION ALL
    SELECT 'table ' || c.relname, a.attname, pg_catalog.aclexplode(a.attacl)
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'ql3'::regnamespace
    UNION ALL
    SELECT 'function ' || p.proname, '', pg_catalog.aclexplode(coalesce(p.proacl, acldefault('f', p.proowner)))
    FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = 'ql3'::regnamespace
    UNION ALL
    SELECT 'schema ql3', '', pg_catalog.aclexplode(n.nspacl) FROM pg_catalog.pg_namespace AS n WHERE n.nspname = 'ql3'
  ) AS granted
  LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = (granted.acl).grantee
  WHERE r.rolname IS DISTINCT FROM 'ql3_owner'`.replaceAll('granted.acl.', '(granted.acl).');

const queries = [columnsSql, viewsSql, constraintsSql, domainsSql, indexesSql, triggersSql, functionsSql, grantsSql];

export async function readCatalog(connection: Connection): Promise<Catalog> {
  const found: { object: string; fact: string }[] = [];
  for (const sql of queries) {
    found.push(...((await ask(connection, sql)) as { object: string; fact: string }[]));
  }
  const facts = Map.groupBy(found, ({ object }) => object);
  const objects = [...facts].map(([object, lines]): [string, string] => {
    const sorted = lines.map(({ fact }) => fact).sort();
    return [object, fingerprint(sorted.join('\n'))];
  });
  return Object.fromEntries(objects.sort(([left], [right]) => (left < right ? -1 : 1)));
}

/** What differs, each as one line; empty where nothing does. */
export function compareCatalogs(expected: Catalog, actual: Catalog): readonly string[] {
  const names = [...new Set([...Object.keys(expected), ...Object.keys(actual)])].sort();
  return names.flatMap((name) => {
    if (expected[name] === actual[name]) {
      return [];
    }
    const what = expected[name] === undefined ? 'is not part of it' : 'differs';
    return [actual[name] === undefined ? `${name} is missing` : `${name} ${what}`];
  });
}
