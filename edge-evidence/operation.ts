// What evidence is about: an operation of the product, prepared and carried out by its own command line alone, so that
// the same work can be cut anywhere and judged alike. Knows no way of cutting.
import { type SpawnOptions, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** `--profile edge` in both delete modes, else standalone; each with its `--durability`. */
export type Mode = 'delete-extra' | 'delete-full' | 'wal-full';

export const modes: readonly Mode[] = ['delete-extra', 'delete-full', 'wal-full'];

/** One data directory and all that belongs to it, below `root`. Absolute paths without links. */
export type Site = {
  readonly bundle: string;
  readonly root: string;
  readonly data: string;
  readonly run: string;
  readonly mode: Mode;
};

export type Ended = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
};

export type Operation = {
  readonly name: string;
  /** What one execution does, in words. */
  readonly title: string;
  /** Leaves `site.data` as it is just before the operation, by the bundle's own commands; nothing runs afterwards. */
  readonly prepare: (site: Site) => Promise<void>;
  /** Arguments after the common ones; this process is cut. The same work each time. */
  readonly act: (site: Site) => readonly string[];
  /** What brings it to its end after a cut. */
  readonly again: (site: Site) => readonly string[];
  /**
   * Whether `again` after any cut leads to the very facts that an uncut execution leads to. Where commands run it need
   * not: of one that was about to start at the cut nobody knows whether it ran, so it is `lost` and tried again.
   */
  readonly endsAlike: boolean;
  /** Whether two executions commit the same, in the same order. Where commands end side by side they do not. */
  readonly isOrdered: boolean;
  /** What must hold at the end, of the last answer and of the site; empty where it does. */
  readonly findTrouble: (site: Site, answer: Ended) => readonly string[];
};

export type RunOptions = {
  readonly nodeArgs?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Kills the process after this long: nothing that is measured here takes a minute. */
  readonly limitMs?: number;
};

export function siteAt(root: string, { bundle, mode }: { readonly bundle: string; readonly mode: Mode }): Site {
  return { bundle, root, data: join(root, 'data'), run: join(root, 'run'), mode };
}

export function databaseOf(site: Site): string {
  return join(site.data, 'qinglong.db');
}

/** The words before every command. */
export function commonArguments({ data, run, mode }: Site): readonly string[] {
  const profile = mode === 'wal-full' ? 'standalone' : 'edge';
  return ['--data', data, '--run-dir', run, '--profile', profile, '--durability', mode];
}

/** What a process of the bundle has around it: little, and always the same. */
export function bundleOptions(site: Site, env: Readonly<Record<string, string>> = {}): SpawnOptions {
  return { cwd: site.root, env: { PATH: process.env['PATH'], TZ: 'UTC', ...env } };
}

/** Carries out one command of the bundle and waits for its end, which a command that it started may outlive. */
export function runBundle(site: Site, args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const { nodeArgs = [], env = {}, limitMs = 60_000 } = options;
  const child = spawn(process.execPath, [...nodeArgs, site.bundle, ...commonArguments(site), ...args], {
    ...bundleOptions(site, env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
  let [out, err] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    // Not `close`: a command that outlives it may hold the pipes.
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      setImmediate(() => resolve({ code, signal, out, err }));
    });
  });
}

/** As `runBundle`, of a command that has to succeed. */
export async function mustRun(site: Site, ...args: readonly string[]): Promise<string> {
  const { code, signal, out, err } = await runBundle(site, args);
  if (code !== 0) {
    throw new EvidenceError(`\`${args.join(' ')}\` ended with ${signal ?? code}: ${err.trim()}`);
  }
  return out;
}

/** Evidence cannot be collected: the message says what happened, for people. Never about what is under test. */
export class EvidenceError extends Error {
  override readonly name = 'EvidenceError';
}

/** Rows of a site's database, which must be sound by now. */
export function queryRows(site: Site, sql: string): readonly Readonly<Record<string, unknown>>[] {
  const db = new DatabaseSync(databaseOf(site), { readOnly: true });
  try {
    return db.prepare(sql).all();
  } finally {
    db.close();
  }
}

/** A file of the site's folder; empty where there is none. */
export function readSiteFile(site: Site, name: string): string {
  try {
    return readFileSync(join(site.root, name), 'utf8');
  } catch {
    return '';
  }
}

/** `what` unless it holds. */
export function unless(holds: boolean, what: string): readonly string[] {
  return holds ? [] : [what];
}
