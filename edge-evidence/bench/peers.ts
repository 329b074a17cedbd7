// Other engines that do the same work. They are installed on demand, by npm, into a folder of the scratch; the project
// does not depend on them, and nothing of them is run at install time.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, Peer } from './bench-run.ts';

/** A peer, and the packages that it consists of with their versions; its own comes first. */
type KnownPeer = Omit<Peer, 'folder'> & { readonly packages: Readonly<Record<string, string>> };

const onSqlite: readonly KnownPeer[] = [
  {
    name: 'openworkflow',
    version: '0.10.1',
    packages: { openworkflow: '0.10.1' },
    program: 'peer-openworkflow.mjs',
    configuration:
      'its SQLite backend on node:sqlite; journal_mode and synchronous set after connecting to those of the profile; ' +
      'a worker as wide as the chains at once, started when they are queued, so that no poll is waited for',
  },
  {
    name: 'plainjob',
    version: '0.0.14',
    packages: { plainjob: '0.0.14' },
    program: 'peer-plainjob.mjs',
    configuration:
      'a queue without workflows: each step of a chain adds the next; on node:sqlite through a connection of the ' +
      'bench instead of better-sqlite3; its WAL and NORMAL replaced after opening by those of the profile; one worker',
  },
];

const onPostgres: readonly KnownPeer[] = [
  {
    name: 'DBOS',
    version: '5.3.0',
    packages: { '@dbos-inc/dbos-sdk': '5.3.0' },
    program: 'cluster-dbos.mjs',
    configuration: 'workflows started in its process, 32 at once, so that no queue is polled; a pool of 32',
  },
  {
    name: 'openworkflow',
    version: '0.10.1',
    packages: { openworkflow: '0.10.1', postgres: '3.4.9' },
    program: 'cluster-openworkflow.mjs',
    configuration: 'its PostgreSQL backend with its own pool; a worker of concurrency 32',
  },
  {
    name: 'pg-boss',
    version: '12.38.0',
    packages: { 'pg-boss': '12.38.0', '@opentelemetry/api': '1.9.0' },
    program: 'cluster-pg-boss.mjs',
    configuration:
      'a queue without workflows: the steps of a batch add their next ones in one statement; batches of 32, fetched ' +
      'on while they are full, woken by NOTIFY; a pool of 32',
  },
  {
    name: 'graphile-worker',
    version: '0.18.0',
    packages: { 'graphile-worker': '0.18.0' },
    program: 'cluster-graphile-worker.mjs',
    configuration:
      'a queue without workflows: each step adds the next; 32 at once, a local queue of 64, ends written in batches ' +
      'without delay; a pool of 34',
  },
];

const installMsMax = 120_000;

/** Those on a database that could be installed; of the others `skip` is told why. */
export function providePeers(
  database: 'sqlite' | 'postgres',
  { scratch, skip, note }: Pick<Bench, 'scratch' | 'skip' | 'note'>,
): readonly Peer[] {
  return (database === 'sqlite' ? onSqlite : onPostgres).flatMap(({ packages, ...peer }) => {
    const root = join(scratch, 'peers', `${database}-${peer.name}-${peer.version}`);
    const folder = join(root, 'node_modules');
    const problem = isInstalled(folder, packages) ? null : install(root, packages, note);
    if (problem === null && isInstalled(folder, packages)) {
      return [{ ...peer, folder }];
    }
    skip(`peer ${peer.name} ${peer.version}`, problem ?? 'npm installed something else');
    return [];
  });
}

function isInstalled(folder: string, packages: KnownPeer['packages']): boolean {
  return Object.entries(packages).every(([name, version]) => {
    const file = join(folder, name, 'package.json');
    return existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { version?: string }).version === version;
  });
}

function install(root: string, packages: KnownPeer['packages'], note: Bench['note']): string | null {
  const wanted = Object.entries(packages).map(([name, version]) => `${name}@${version}`);
  note(`installing ${wanted.join(', ')}`);
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, 'package.json'), JSON.stringify({ private: true }));
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--omit=peer', '--save-exact', '--loglevel=error'];
  const { status, error, stderr } = spawnSync('npm', ['install', ...flags, ...wanted], {
    cwd: root,
    encoding: 'utf8',
    timeout: installMsMax,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  if (error !== undefined) {
    return `npm cannot be run: ${error.message}`;
  }
  return status === 0 ? null : `npm could not install it: ${stderr.trim().split('\n')[0] ?? ''}`;
}
