// One PostgreSQL server of the drill: its folder, settings and process. Reached through a Unix socket in its folder and
// no other way. Knows nothing of the product.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client, type QueryResultRow } from 'pg';
import { EvidenceError } from '../operation.ts';
import { listProcesses, readProcessEntry } from '../processes.ts';
import { give, makeFolder, type Programs, runProgram } from './programs.ts';
import { waitFor } from './waiting.ts';

export const superuser = 'postgres';

export type Settings = Readonly<Record<string, string>>;

// A standby becomes a primary and the other way about, so both have everything that either needs. `fsync` stays on.
const commonSettings: Settings = {
  listen_addresses: '',
  max_connections: '40',
  shared_buffers: '32MB',
  // Beside the database, so that a crash leaves nothing anywhere else.
  dynamic_shared_memory_type: 'mmap',
  wal_level: 'replica',
  max_wal_senders: '8',
  hot_standby: 'on',
  // pg_rewind needs it, and it cannot be turned on afterwards.
  wal_log_hints: 'on',
  // A standby that was away finds what it missed; there is no archive.
  wal_keep_size: '256MB',
  // The default, 5 s, is what a promotion and a healed link would wait.
  wal_retrieve_retry_interval: '500ms',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
};

const linesKept = 40;

export class Server {
  readonly name: string;
  readonly folder: string;
  readonly data: string;
  readonly programs: Programs;
  #process: ChildProcess | null = null;
  #closed: Promise<unknown> = Promise.resolve();
  #said: string[] = [];

  /** `folder` does not exist yet. */
  constructor(programs: Programs, folder: string, name: string) {
    this.programs = programs;
    this.folder = folder;
    this.name = name;
    this.data = join(folder, 'data');
    makeFolder(programs, folder, 0o711);
  }

  get url(): string {
    return `postgres://${superuser}@localhost/postgres?host=${encodeURIComponent(this.folder)}`;
  }

  /** Null while it does not run. */
  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  /** Makes an empty database cluster. */
  async init(): Promise<void> {
    const args = ['-D', this.data, '-U', superuser, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    await runProgram(this.programs, 'initdb', args);
  }

  /** Takes the place of all settings that it has, those that came from another server included. */
  configure(settings: Settings): void {
    const all = { ...commonSettings, unix_socket_directories: this.folder, cluster_name: this.name, ...settings };
    const lines = Object.entries(all).map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'\n`);
    this.#write('postgresql.conf', lines.join(''));
    this.#write('postgresql.auto.conf', '');
  }

  /** Makes it follow, from its next start on, the server that is reached through `host`. */
  follow(host: string, settings: Settings): void {
    const from = `host=${host} port=5432 user=${superuser} application_name=${this.name}`;
    this.configure({ ...settings, primary_conninfo: from });
    this.#write('standby.signal', '');
  }

  /** Starts it; resolves when it takes connections. */
  async start(): Promise<void> {
    const { bin, env, identity } = this.programs;
    this.#said = [];
    const child = spawn(join(bin, 'postgres'), ['-D', this.data], {
      ...identity,
      cwd: this.folder,
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = child;
    this.#closed = once(child, 'close').then(() => {
      this.#process = null;
    });
    const isReady = await new Promise<boolean>((resolve) => {
      createInterface({ input: child.stderr! }).on('line', (line) => {
        this.#said = [...this.#said.slice(1 - linesKept), line];
        if (line.includes('ready to accept')) {
          resolve(true);
        }
      });
      void this.#closed.then(() => resolve(false));
    });
    if (!isReady) {
      throw new EvidenceError(`server ${this.name} did not start: ${this.#said.join(' | ')}`);
    }
  }

  /** Ends it in order; open sessions are ended. */
  async stop(): Promise<void> {
    this.#process?.kill('SIGINT');
    await this.#closed;
  }

  /** Ends it as a power cut does: all its processes at one moment, so that none has a last word. Answers how many. */
  async crash(): Promise<number> {
    const pid = this.pid;
    if (pid === null) {
      return 0;
    }
    // The parent first, so that nobody is born while the others are looked for.
    process.kill(pid, 'SIGSTOP');
    const family = [pid, ...listProcesses().flatMap((entry) => (entry.parentPid === pid ? [entry.pid] : []))];
    for (const signal of ['SIGSTOP', 'SIGKILL'] as const) {
      for (const member of family) {
        signalTo(member, signal);
      }
    }
    await this.#closed;
    await waitFor(`the end of server ${this.name}`, async () => (family.every(isOver) ? true : null));
    this.removeSharedMemory();
    return family.length;
  }

  /**
   * Takes away the one segment that outlives its processes, as a machine that is gone does; while they live, it goes
   * with the last of them. Its id ends the seventh line of the file.
   */
  removeSharedMemory(): void {
    const file = join(this.data, 'postmaster.pid');
    const id = existsSync(file) ? readFileSync(file, 'utf8').split('\n')[6]?.trim().split(/\s+/)[1] : undefined;
    if (id !== undefined) {
      spawnSync('ipcrm', ['-m', id], { stdio: 'ignore' });
    }
  }

  /** One statement in a session of its own. */
  async ask<R extends QueryResultRow = QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    const session = await openSession(this);
    try {
      return (await session.query<R>(text, [...values])).rows;
    } finally {
      await session.end();
    }
  }

  /** The one value of a statement that has one. */
  async value(text: string, values: readonly unknown[] = []): Promise<string> {
    const [row = {}] = await this.ask(text, values);
    return `${Object.values(row)[0]}`;
  }

  /** As an operator changes a setting: in force when this resolves for every session that begins. */
  async alter(name: string, value: string): Promise<void> {
    await this.ask(`ALTER SYSTEM SET ${name} = '${value}'`);
    await this.ask('SELECT pg_reload_conf()');
    await waitFor(`${name} at server ${this.name}`, async () => {
      const now = await this.value('SELECT current_setting($1)', [name]);
      return now === value ? true : null;
    });
  }

  #write(name: string, text: string): void {
    const file = join(this.data, name);
    writeFileSync(file, text, { mode: 0o600 });
    give(this.programs, file);
  }
}

/** A session of the superuser that survives the loss of its connection. Throws what connecting throws. */
export async function openSession({ url }: Pick<Server, 'url'>): Promise<Client> {
  const session = new Client({ connectionString: url, application_name: 'drill' });
  session.on('error', () => {});
  await session.connect();
  return session;
}

function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone meanwhile.
  }
}

function isOver(pid: number): boolean {
  return readProcessEntry(pid)?.isOver ?? true;
}
