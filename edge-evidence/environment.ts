// The machine that evidence was collected on, as far as it can matter: no name, no address, no path of it.
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';
import { sep } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

export type Environment = {
  readonly node: string;
  readonly sqlite: string;
  readonly sqliteOptions: readonly string[];
  readonly architecture: string;
  readonly kernel: string;
  readonly libc: string;
  readonly cpu: { readonly model: string; readonly count: number };
  readonly memoryKib: number;
  /** Of the scratch folder, where everything took place. */
  readonly fileSystem: { readonly type: string; readonly mountOptions: readonly string[] };
};

const unknown = 'unknown';

export function readEnvironment(scratch: string): Environment {
  const processors = cpus();
  return {
    node: process.versions.node,
    sqlite: process.versions['sqlite'] ?? unknown,
    sqliteOptions: readSqliteOptions(),
    architecture: process.arch,
    kernel: `${type()} ${release()}`,
    libc: findLibc(),
    cpu: { model: processors[0]?.model.trim() || unknown, count: Math.max(1, processors.length) },
    memoryKib: Math.round(totalmem() / 1024),
    fileSystem: findFileSystem(realpathSync(scratch), readFileSync('/proc/self/mountinfo', 'utf8')),
  };
}

function readSqliteOptions(): readonly string[] {
  const db = new DatabaseSync(':memory:');
  try {
    return db
      .prepare('PRAGMA compile_options')
      .all()
      .map((row) => `${row['compile_options']}`);
  } finally {
    db.close();
  }
}

function findLibc(): string {
  // Otherwise it would look up the names of every address that this machine is connected to.
  Reflect.set(process.report, 'excludeNetwork', true);
  const { header } = process.report.getReport() as { readonly header: { readonly glibcVersionRuntime?: string } };
  if (header.glibcVersionRuntime !== undefined) {
    return `glibc ${header.glibcVersionRuntime}`;
  }
  const isMusl = existsSync('/lib') && readdirSync('/lib').some((name) => name.startsWith('ld-musl-'));
  return isMusl ? 'musl' : unknown;
}

/** What a path is on, out of a text like /proc/self/mountinfo: the longest mount point that it is below. */
export function findFileSystem(path: string, mountInfo: string): Environment['fileSystem'] {
  let longest = -1;
  let found: Environment['fileSystem'] = { type: unknown, mountOptions: [] };
  for (const line of mountInfo.split('\n').filter((text) => text !== '')) {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , , point = '', options = ''] = before.split(' ').map(decodeOctal);
    const [fileSystemType = unknown, , superOptions = ''] = after.split(' ');
    const isAbove = path === point || path.startsWith(point.endsWith(sep) ? point : `${point}${sep}`);
    // A later mount on the same point hides the earlier one.
    if (isAbove && point.length >= longest) {
      longest = point.length;
      const all = [...options.split(','), ...superOptions.split(',')].filter((option) => isTelling(option));
      found = { type: fileSystemType, mountOptions: [...new Set(all)] };
    }
  }
  return found;
}

/** Options that hold a path say where this machine keeps things, and nothing about how it keeps them. */
function isTelling(option: string): boolean {
  return option !== '' && !option.includes(sep);
}

function decodeOctal(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
