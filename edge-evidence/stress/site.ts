// One data directory with the shipped bundle on it, driven as users drive it: its command line, and the socket of its
// daemon. Owns the processes and the folder; knows nothing of what is checked.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync, watch } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProcessesOf, killProcess } from '../processes.ts';

export type Profile = 'edge' | 'standalone';

export type Site = {
  readonly root: string;
  readonly data: string;
  readonly run: string;
  readonly profile: Profile;
};

export type Ended = {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  /** The same as it was written. */
  readonly bytes: Buffer;
  readonly err: string;
};

export type Started = {
  readonly process: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves with the first bytes of its output, or with its end. */
  readonly spoke: Promise<void>;
};

export type Answer = { readonly status: number; readonly document: Readonly<Record<string, unknown>> };

const dist = join(import.meta.dirname, '../../dist');
export const bundleFile = join(dist, 'qinglong-edge.cjs');
export const libraryFile = join(dist, 'index.cjs');

/** In the temporary folder; `closeSite` takes it away. */
export function makeSite(profile: Profile): Site {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'stress-')));
  return { root, data: join(root, 'data'), run: join(root, 'run'), profile };
}

/** Ends whoever is left of a site, by id, and removes its folder. */
export function closeSite({ root }: Site): void {
  findProcessesOf(root).forEach(killProcess);
  rmSync(root, { recursive: true, force: true, maxRetries: 3 });
}

/** Starts the command line. Its environment is small and fixed, but for the launcher's shell, which may be chosen. */
export function startBundle(site: Site, args: readonly string[]): Started {
  return startNode(site, [bundleFile, '--data', site.data, '--run-dir', site.run, '--profile', site.profile, ...args]);
}

export function startNode(site: Site, args: readonly string[], input = ''): Started {
  const shell = process.env['QINGLONG_EDGE_SHELL'];
  const child = spawn(process.execPath, args, {
    cwd: site.root,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], TZ: 'UTC', ...(shell === undefined ? {} : { QINGLONG_EDGE_SHELL: shell }) },
  });
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const chunks: Buffer[] = [];
  let err = '';
  const spoke = Promise.withResolvers<void>();
  child.stdout.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    spoke.resolve();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => {
      spoke.resolve();
      const bytes = Buffer.concat(chunks);
      resolve({ code, signal, out: bytes.toString(), bytes, err });
    });
  });
  return { process: child, ended, spoke: spoke.promise };
}

export function callBundle(site: Site, ...args: readonly string[]): Promise<Ended> {
  return startBundle(site, args).ended;
}

/** One request to the daemon. Rejects where there is none, or it goes away: the outcome is then unknown. */
export function askDaemon(site: Site, path: string, body: object): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' };
    const socketPath = join(site.run, 'sock');
    const outgoing = request({ socketPath, path, method: 'POST', agent: false, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        try {
          resolve({ status: response.statusCode ?? 0, document: JSON.parse(Buffer.concat(chunks).toString()) });
        } catch (error) {
          reject(error);
        }
      });
    });
    outgoing.on('error', reject);
    outgoing.end(JSON.stringify(body));
  });
}

/**
 * Resolves when `isTrue` answers true, which is asked again at every change in the site's own folder; or after
 * `waitMsMax`. Answers whether it was true.
 */
export function seenIn(site: Site, isTrue: () => boolean, waitMsMax: number): Promise<boolean> {
  return new Promise((resolve) => {
    const finish = (outcome: boolean) => {
      clearTimeout(timer);
      watcher.close();
      resolve(outcome);
    };
    const look = () => {
      if (isTrue()) {
        finish(true);
      }
    };
    const timer = setTimeout(() => finish(false), waitMsMax);
    const watcher = watch(site.root, look);
    look();
  });
}

export function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, delayMs);
  });
}

/** Processes of the site that are still there when those that are only ending have had their time. */
export async function findLeftProcesses({ root }: Site): Promise<readonly number[]> {
  const looks = 20;
  for (let look = 0; look < looks && findProcessesOf(root).length > 0; look += 1) {
    await pause(50);
  }
  return findProcessesOf(root).map(({ pid }) => pid);
}
