// Writes src/store/postgres/catalog-manifest.ts: what the migrations make of an empty database, as a server tells it.
//   node test/store/postgres/write-catalog.ts
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { projectRoot } from '../../../build/project.ts';
import { readCatalog } from '../../../src/store/postgres/catalog.ts';
import { Connection } from '../../../src/store/postgres/connection.ts';
import { openDatabases } from './databases.ts';

const databases = await openDatabases();
const connection = await Connection.open(databases.urlOf('migrated'));
const catalog = await readCatalog(connection);
await connection.end();
await databases.close();
const rows = Object.entries(catalog).map(([object, text]) => `  '${object}': '${text}',\n`);
const header = `// Written by test/store/postgres/write-catalog.ts from schema/postgres/*.sql: only a server
// can tell what they make. A test compares the two. Change that, not this.

/** Fingerprints of every object of the schema after the last migration: see catalog.ts. */
export const catalogManifest: Readonly<Record<string, string>> = {
`;
writeFileSync(path.join(projectRoot, 'src/store/postgres/catalog-manifest.ts'), `${header}${rows.join('')}};\n`);
