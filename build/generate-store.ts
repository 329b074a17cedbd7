// Generates what the SQLite store embeds: the migrations' text, and the digest of the schema that they make.
import { sha256 } from '../src/core/hash.ts';
import { fingerprintSchema, packSql, withSchema } from '../src/store/sqlite/catalog.ts';
import { type GeneratedFile, generatedHeader, templateLiteral } from './generated-file.ts';
import { listFiles, readText } from './project.ts';

const storeFolder = 'src/store/sqlite';

type Migration = { readonly id: string; readonly sha256: string; readonly sql: string };

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

/** The fingerprint of the schema after all migrations. */
export function generateSchemaFingerprint(root: string): GeneratedFile[] {
  const schemaFingerprint = withSchema(readMigrations(root), fingerprintSchema);
  const text = `${generatedHeader('the schema that schema/sqlite/*.sql makes')}
/** Of every object of the database after the last migration: see catalog.ts. */
export const schemaFingerprint = '${schemaFingerprint}';
`;
  return [{ path: `${storeFolder}/schema-fingerprint.generated.ts`, text }];
}
