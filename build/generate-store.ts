// Generates what the SQLite store embeds: the migrations' text, and the catalog that they make of an empty database.
import { DatabaseSync } from 'node:sqlite';
import { sha256 } from '../src/core/hash.ts';
import { type Catalog, describeCatalog, packSql } from '../src/store/sqlite/catalog.ts';
import { type GeneratedFile, generatedHeader, templateLiteral } from './generated-file.ts';
import { listFiles, readText } from './project.ts';

const storeFolder = 'src/store/sqlite';

type Migration = { readonly id: string; readonly sha256: string; readonly sql: string };

// Of the 400 lines of a file, room for its head and for values that the formatter puts on a line of their own.
const catalogLinesMax = 340;

/** The migrations under schema/sqlite, sorted by file name. `sha256` is that of the file as it is, for `sha256sum`. */
export function readMigrations(root: string): Migration[] {
  const files = listFiles(root, ['schema/sqlite']).filter((file) => file.endsWith('.sql'));
  return files.map((file) => {
    const text = readText(root, file);
    return { id: file.slice('schema/sqlite/'.length, -'.sql'.length), sha256: sha256(text), sql: packSql(text) };
  });
}

/** One module per migration, so that each stays as short as its SQL file, and the list of them. */
export function generateMigrations(root: string): GeneratedFile[] {
  const migrations = readMigrations(root);
  const header = generatedHeader('schema/sqlite/*.sql');
  const texts = migrations.map(({ id, sql }) => ({
    path: `${storeFolder}/migrations/${id}.generated.ts`,
    text: `${header}export const sql = ${templateLiteral(`${sql}\n`)};\n`,
  }));
  const imports = migrations.map(
    ({ id }, index) => `import { sql as sql${index} } from './migrations/${id}.generated.ts';\n`,
  );
  const rows = migrations.map(
    ({ id, sha256: hash }, index) => `  { id: '${id}', sha256: '${hash}', sql: sql${index} },\n`,
  );
  const list = `${header}${imports.join('')}
/** In the order in which they are applied; \`sha256\` is that of the file under schema/sqlite. */
export const migrations: readonly { readonly id: string; readonly sha256: string; readonly sql: string }[] = [
${rows.join('')}];
`;
  return [...texts, { path: `${storeFolder}/migrations.generated.ts`, text: list }];
}

/** The catalog after all migrations, in as many modules as their length demands. */
export function generateCatalog(root: string): GeneratedFile[] {
  const parts = splitCatalog(buildCatalog(readMigrations(root)));
  const header = generatedHeader('the schema that schema/sqlite/*.sql makes');
  const modules = parts.map((part, index) => ({
    path: `${storeFolder}/catalog/part-${index + 1}.generated.ts`,
    text: `${header}import type { Catalog } from '../catalog.ts';\n
export const part: Catalog = {\n${part.map(([name, facts]) => printObject(name, facts)).join('')}};\n`,
  }));
  const imports = parts.map(
    (_part, index) => `import { part as part${index + 1} } from './catalog/part-${index + 1}.generated.ts';\n`,
  );
  const spreads = parts.map((_part, index) => `...part${index + 1}`).join(', ');
  const whole = `${header}import type { Catalog } from './catalog.ts';
${imports.join('')}
/** What every object of the database has to be after the last migration. */
export const catalog: Catalog = { ${spreads} };
`;
  return [...modules, { path: `${storeFolder}/catalog.generated.ts`, text: whole }];
}

function buildCatalog(migrations: readonly Migration[]): Catalog {
  const db = new DatabaseSync(':memory:');
  try {
    for (const { sql } of migrations) {
      db.exec(sql);
    }
    return describeCatalog(db);
  } finally {
    db.close();
  }
}

type CatalogEntry = [name: string, facts: Catalog[string]];

function splitCatalog(catalog: Catalog): CatalogEntry[][] {
  const parts: CatalogEntry[][] = [];
  let lines = 0;
  for (const entry of Object.entries(catalog)) {
    const entryLines = Object.keys(entry[1]).length + 2;
    const part = parts.at(-1);
    if (part === undefined || lines + entryLines > catalogLinesMax) {
      parts.push([entry]);
      lines = entryLines;
    } else {
      part.push(entry);
      lines += entryLines;
    }
  }
  return parts;
}

function printObject(name: string, facts: Catalog[string]): string {
  const lines = Object.entries(facts).map(
    ([fact, value]) => `    ${JSON.stringify(fact)}: ${JSON.stringify(value)},\n`,
  );
  return `  ${JSON.stringify(name)}: {\n${lines.join('')}  },\n`;
}
