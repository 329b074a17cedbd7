// Other engines that do the same work. They are installed on demand, by npm, into a folder of the scratch; the project
// does not depend on them, and nothing of them is run at install time.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, Peer } from './bench-run.ts';

const known: readonly Omit<Peer, 'folder'>[] = [
  {
    name: 'openworkflow',
    version: '0.10.1',
    program: 'peer-openworkflow.mjs',
    configuration:
      'its SQLite backend on node:sqlite; journal_mode and synchronous set after connecting to those of the profile; ' +
      'a worker as wide as the chains at once, started when they are queued, so that no poll is waited for',
  },
  {
    name: 'plainjob',
    version: '0.0.14',
    program: 'peer-plainjob.mjs',
    configuration:
      'a queue without workflows: each step of a chain adds the next; on node:sqlite through a connection of the ' +
      'bench instead of better-sqlite3; its WAL and NORMAL replaced after opening by those of the profile; one worker',
  },
];

const installMsMax = 120_000;

/** Those that could be installed; of the others `skip` is told why. */
export function providePeers({ scratch, skip, note }: Pick<Bench, 'scratch' | 'skip' | 'note'>): readonly Peer[] {
  return known.flatMap((peer) => {
    const root = join(scratch, 'peers', `${peer.name}-${peer.version}`);
    const folder = join(root, 'node_modules');
    const problem = isInstalled(folder, peer) ? null : install(root, peer, note);
    if (problem === null && isInstalled(folder, peer)) {
      return [{ ...peer, folder }];
    }
    skip(`peer ${peer.name} ${peer.version}`, problem ?? 'npm installed something else');
    return [];
  });
}

function isInstalled(folder: string, { name, version }: Pick<Peer, 'name' | 'version'>): boolean {
  const file = join(folder, name, 'package.json');
  return existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { version?: string }).version === version;
}

function install(root: string, { name, version }: Pick<Peer, 'name' | 'version'>, note: Bench['note']): string | null {
  note(`installing ${name} ${version}`);
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, 'package.json'), JSON.stringify({ private: true }));
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--omit=peer', '--save-exact', '--loglevel=error'];
  const { status, error, stderr } = spawnSync('npm', ['install', ...flags, `${name}@${version}`], {
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
