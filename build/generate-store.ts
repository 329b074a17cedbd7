// Generates what the stores embed: the migrations' text, and the digest of the schema that those of SQLite make.
import { sha256 } from '../src/core/hash.ts';
import { fingerprintSchema, packSql, withSchema } from '../src/store/sqlite/catalog.ts';
import { type GeneratedFile, generatedHeader, templateLiteral } from './generated-file.ts';
import { listFiles, readText } from './project.ts';

type Engine = 'sqlite' | 'postgres';
type Migration = { readonly id: string; readonly sha256: string; readonly sql: string };

// What has no number is not counted as a migration.
const migrationName = /(?:^|-)\d{4}-/;
const rolesFile = 'schema/postgres/roles.sql';

/** The migrations of a store, sorted by file name. `sha256` is that of the file as it is, for `sha256sum`. */
export function readMigrations(root: string, engine: Engine): Migration[] {
  const files = listFiles(root, [`schema/${engine}`]).filter((file) => file.endsWith('.sql'));
  return files
    .map((file) => ({ id: file.slice(`schema/${engine}/`.length, -'.sql'.length), text: readText(root, file) }))
    .filter(({ id }) => migrationName.test(id))
    .map(({ id, text }) => ({ id, sha256: sha256(text), sql: packSql(text) }));
}

/** One module per migration, so that each stays as short as its SQL file, and the list of them. */
export function generateMigrations(root: string, engine: Engine): GeneratedFile[] {
  const storeFolder = `src/store/${engine}`;
  const migrations = readMigrations(root, engine);
  const header = generatedHeader(`schema/${engine}/*.sql`);
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
/** In the order in which they are applied; \`sha256\` is that of the file under schema/${engine}. */
export const migrations: readonly { readonly id: string; readonly sha256: string; readonly sql: string }[] = [
${rows.join('')}];
`;
  return [...texts, { path: `${storeFolder}/migrations.generated.ts`, text: list }];
}

/** The roles of PostgreSQL, which belong to a server and not to a database. */
export function generateRoles(root: string): GeneratedFile[] {
  const sql = templateLiteral(`${packSql(readText(root, rolesFile))}\n`);
  const text = `${generatedHeader(rolesFile)}export const rolesSql = ${sql};\n`;
  return [{ path: 'src/store/postgres/roles.generated.ts', text }];
}

/** The fingerprint of the schema after all migrations. */
export function generateSchemaFingerprint(root: string): GeneratedFile[] {
  const schemaFingerprint = withSchema(readMigrations(root, 'sqlite'), fingerprintSchema);
  const text = `${generatedHeader('the schema that schema/sqlite/*.sql makes')}
/** Of every object of the database after the last migration: see catalog.ts. */
export const schemaFingerprint = '${schemaFingerprint}';
`;
  return [{ path: 'src/store/sqlite/schema-fingerprint.generated.ts', text }];
}
