// `npm run generate`: writes every generated module. `--check` writes nothing and fails when one is stale, naming it.
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { generateMigrations, generateRoles, generateSchemaFingerprint } from './generate-store.ts';
import { generateBuildInfo, generateScripts } from './generate-texts.ts';
import { formatGenerated, type GeneratedFile, generatedEnding } from './generated-file.ts';
import { listFiles, projectRoot, readText } from './project.ts';

/** All generated files as they should be. */
export function generateAll(root: string): GeneratedFile[] {
  const files = [
    ...generateMigrations(root, 'sqlite'),
    ...generateMigrations(root, 'postgres'),
    ...generateRoles(root),
    ...generateSchemaFingerprint(root),
    ...generateScripts(root),
    ...generateBuildInfo(root),
  ];
  return formatGenerated(files);
}

/** What on the disk is not as generated, each as one line; empty where all is up to date. */
export function findStale(root: string, files: readonly GeneratedFile[]): string[] {
  const wanted = new Set(files.map((file) => file.path));
  const stale = files.filter(
    ({ path: file, text }) => !existsSync(path.join(root, file)) || readText(root, file) !== text,
  );
  return [
    ...stale.map((file) => `${file.path} is stale: npm run generate`),
    ...listOrphans(root, wanted).map((file) => `${file} is generated from nothing: npm run generate`),
  ];
}

function listOrphans(root: string, wanted: ReadonlySet<string>): string[] {
  return listFiles(root, ['src']).filter((file) => file.endsWith(generatedEnding) && !wanted.has(file));
}

function writeGenerated(root: string, files: readonly GeneratedFile[]): void {
  for (const file of listOrphans(root, new Set(files.map(({ path: wanted }) => wanted)))) {
    rmSync(path.join(root, file));
  }
  for (const file of files) {
    mkdirSync(path.dirname(path.join(root, file.path)), { recursive: true });
    writeFileSync(path.join(root, file.path), file.text);
  }
}

if (import.meta.main) {
  const files = generateAll(projectRoot);
  const stale = findStale(projectRoot, files);
  if (process.argv.includes('--check')) {
    process.stdout.write(stale.map((line) => `${line}\n`).join(''));
    process.exitCode = stale.length === 0 ? 0 : 1;
  } else {
    writeGenerated(projectRoot, files);
  }
}
