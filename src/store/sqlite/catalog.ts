// The catalog of a database as plain data: what the migrations make of an empty one, and what a database at hand really
// has. Owns the comparison of the two. Reads the schema only; never decides what a difference means.
import { DatabaseSync } from 'node:sqlite';
import { fingerprint, sha256 } from '../../core/hash.ts';

/** Facts of one object by name, such as `column status` → `INTEGER NOT NULL`. */
export type CatalogObject = Readonly<Record<string, string>>;

/** Objects by kind and name, such as `table Runs`. */
export type Catalog = Readonly<Record<string, CatalogObject>>;

type SchemaRow = { readonly type: string; readonly name: string; readonly table: string; readonly sql: string };

// SQLite's own objects: an automatic index is part of its table's text.
const objectsSql = `SELECT type, name, tbl_name AS "table", coalesce(sql, '') AS sql FROM sqlite_schema
  WHERE substr(name, 1, 7) <> 'sqlite_' ORDER BY type, name`;
const flagsSql = 'SELECT wr AS isWithoutRowid, strict AS isStrict FROM pragma_table_list(:name)';
const columnsSql = `SELECT name, type, "notnull" AS isRequired, dflt_value AS defaultSql, pk AS keyPosition, hidden
  FROM pragma_table_xinfo(:name) ORDER BY cid`;
const foreignKeysSql = `SELECT "table" AS parent, on_update AS onUpdate, on_delete AS onDelete,
    group_concat("from", ', ' ORDER BY seq) AS fromColumns,
    group_concat(coalesce("to", '?'), ', ' ORDER BY seq) AS toColumns
  FROM pragma_foreign_key_list(:name) GROUP BY id ORDER BY fromColumns, parent`;
const indexSql = 'SELECT "unique" AS isUnique, partial AS isPartial FROM pragma_index_list(:table) WHERE name = :name';
const indexColumnsSql = `SELECT coalesce(name, '(expression)') || iif("desc", ' DESC', '') ||
    iif(coll = 'BINARY', '', ' COLLATE ' || coll) AS text FROM pragma_index_xinfo(:name) WHERE "key" ORDER BY seqno`;

// One alternative for what is quoted, and one for any run of blanks and comments outside it.
const sqlPieces = /('(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])|(?:\s|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))+/g;

/** SQL without comments, each run of blanks as one space; what stands in quotes is untouched. */
export function normalizeSql(sql: string): string {
  return sql.replaceAll(sqlPieces, (_piece, quoted: string | undefined) => quoted ?? ' ').trim();
}

/** SQL without comments, blank lines and indentation; line breaks stay, for whoever reads the schema in a shell. */
export function packSql(sql: string): string {
  const pack = (piece: string, quoted: string | undefined) => quoted ?? (piece.includes('\n') ? '\n' : ' ');
  return sql.replaceAll(sqlPieces, pack).trim();
}

/** The digest of each object's text, as a catalog with that one fact. */
export function listTexts(db: DatabaseSync): Catalog {
  const objects = db.prepare(objectsSql).all() as SchemaRow[];
  return Object.fromEntries(objects.map((row) => [`${row.type} ${row.name}`, { sql: sha256(normalizeSql(row.sql)) }]));
}

/** One fingerprint for the texts of all objects as they stand: where it is equal, `compareCatalogs` finds nothing. */
export function fingerprintSchema(db: DatabaseSync): string {
  const objects = db.prepare(objectsSql).all() as SchemaRow[];
  return fingerprint(objects.map((row) => `${row.type} ${row.name} ${row.sql}\n`).join(''));
}

/** The catalog that migrations make of an empty database, in memory. Throws what SQLite throws. */
export function buildCatalog(migrations: readonly { readonly sql: string }[]): Catalog {
  return withSchema(migrations, describeCatalog);
}

/** Makes the schema of migrations in memory and looks at it. */
export function withSchema<T>(migrations: readonly { readonly sql: string }[], look: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(':memory:');
  try {
    for (const { sql } of migrations) {
      db.exec(sql);
    }
    return look(db);
  } finally {
    db.close();
  }
}

/** Every object of the database's schema but SQLite's own. Reads only; a few milliseconds for fifty objects. */
export function describeCatalog(db: DatabaseSync): Catalog {
  const objects = db.prepare(objectsSql).all() as SchemaRow[];
  return Object.fromEntries(objects.map((row) => [`${row.type} ${row.name}`, describeObject(db, row)]));
}

/**
 * What differs between two catalogs, each as one line that names the object and, where both have it, the fact.
 * Empty where they are equal.
 */
export function compareCatalogs(expected: Catalog, actual: Catalog): string[] {
  const names = [...new Set([...Object.keys(expected), ...Object.keys(actual)])].sort();
  return names.flatMap((name) => {
    const wanted = expected[name];
    const found = actual[name];
    if (wanted === undefined) {
      return [`${name}: not part of the schema`];
    }
    return found === undefined ? [`${name}: missing`] : compareObjects(name, wanted, found);
  });
}

function compareObjects(name: string, wanted: CatalogObject, found: CatalogObject): string[] {
  const facts = [...new Set([...Object.keys(wanted), ...Object.keys(found)])].sort();
  const different = facts.filter((fact) => wanted[fact] !== found[fact]);
  // The digest of the text differs with every fact: it is told only where no other fact shows why.
  const told = different.length > 1 ? different.filter((fact) => fact !== 'sql') : different;
  return told.map((fact) =>
    fact === 'sql'
      ? `${name}: its text differs from the migrations'`
      : `${name}: ${fact} is ${found[fact] ?? 'missing'} instead of ${wanted[fact] ?? 'absent'}`,
  );
}

function describeObject(db: DatabaseSync, row: SchemaRow): CatalogObject {
  const sql = sha256(normalizeSql(row.sql));
  switch (row.type) {
    case 'table':
      return { ...describeTable(db, row.name), sql };
    case 'index':
      return { ...describeIndex(db, row), sql };
    case 'trigger':
      return { table: row.table, sql };
    default:
      return { ...describeColumns(db, row.name), sql };
  }
}

function describeTable(db: DatabaseSync, name: string): CatalogObject {
  const flags = db.prepare(flagsSql).get({ name }) as { isWithoutRowid: number; isStrict: number };
  const foreignKeys = db.prepare(foreignKeysSql).all({ name }) as Record<string, string>[];
  const facts = foreignKeys.map(({ parent, onUpdate, onDelete, fromColumns, toColumns }) => [
    `foreign key (${fromColumns}) to ${parent}`,
    `(${toColumns}) ON UPDATE ${onUpdate} ON DELETE ${onDelete}`,
  ]);
  const kind = [flags.isStrict === 1 ? 'STRICT' : 'not STRICT', flags.isWithoutRowid === 1 ? 'WITHOUT ROWID' : 'rowid'];
  return { kind: kind.join(', '), ...describeColumns(db, name), ...Object.fromEntries(facts) };
}

type ColumnRow = {
  readonly name: string;
  readonly type: string;
  readonly isRequired: number;
  readonly defaultSql: string | null;
  readonly keyPosition: number;
  readonly hidden: number;
};

function describeColumns(db: DatabaseSync, name: string): CatalogObject {
  const columns = db.prepare(columnsSql).all({ name }) as ColumnRow[];
  return Object.fromEntries(columns.map((column) => [`column ${column.name}`, describeColumn(column)]));
}

function describeColumn({ type, isRequired, defaultSql, keyPosition, hidden }: ColumnRow): string {
  const parts = [
    type === '' ? 'any type' : type,
    isRequired === 1 ? 'NOT NULL' : '',
    defaultSql === null ? '' : `DEFAULT ${defaultSql}`,
    keyPosition === 0 ? '' : `KEY ${keyPosition}`,
    // 2 and 3 mark generated columns, virtual and stored.
    hidden === 0 ? '' : `hidden ${hidden}`,
  ];
  return parts.filter((part) => part !== '').join(' ');
}

function describeIndex(db: DatabaseSync, { name, table }: SchemaRow): CatalogObject {
  const index = db.prepare(indexSql).get({ name, table }) as { isUnique: number; isPartial: number };
  const columns = db.prepare(indexColumnsSql).all({ name }) as { text: string }[];
  const kind = [index.isUnique === 1 ? 'UNIQUE' : 'not UNIQUE', index.isPartial === 1 ? 'partial' : 'whole'];
  return { table, kind: kind.join(', '), columns: columns.map(({ text }) => text).join(', ') };
}
