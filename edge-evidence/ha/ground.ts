// The ground that one drill stands on: two servers in a temporary folder, each reached by the other through a link that
// can be cut, and the runtimes. Leaves no process and no file.
import { chmodSync, mkdtempSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from 'pg';
import { findProcessesOf, killProcess } from '../processes.ts';
import { clearFolder, clearWhenEnded } from '../site-copy.ts';
import { type CloneMethod, clone } from './clone.ts';
import { type Link, openLink } from './link.ts';
import { findPrograms, makeFolder, type Programs } from './programs.ts';
import { RuntimeProcess } from './runtime-process.ts';
import { openSession, Server } from './server.ts';

export type Ground = {
  readonly programs: Programs;
  /** The primary of timeline 1, and the one of timeline 2. */
  readonly old: Server;
  readonly next: Server;
  /** The way that the respective other one takes to it. */
  readonly toOld: Link;
  readonly toNext: Link;
  readonly clonedBy: CloneMethod;
  startRuntime(server: Server): Promise<RuntimeProcess>;
  openSession(server: Server): Promise<Client>;
};

export type GroundOptions = {
  /** An existing folder; an own one is made in it. */
  readonly scratch: string;
  readonly pgBin: string | null;
  readonly bundle: string;
};

/** `remote_apply` on both; each would wait for the other, so that a promoted standby is no weaker than its primary. */
const settings = { synchronous_commit: 'remote_apply' };

/** Gives `work` a primary and its synchronous standby, and takes everything away again. */
export async function withGround<T>(options: GroundOptions, work: (ground: Ground) => Promise<T>): Promise<T> {
  const root = realpathSync(mkdtempSync(join(options.scratch, 'ha-')));
  chmodSync(root, 0o711);
  const servers: Server[] = [];
  const closers: (() => Promise<unknown>)[] = [];
  const clear = () => {
    // First, so that none makes a segment while those of the others are taken away.
    findProcessesOf(root).forEach(killProcess);
    for (const server of servers) {
      server.removeSharedMemory();
    }
    clearFolder(root);
  };
  const stopListening = clearWhenEnded(clear);
  try {
    const programs = await findPrograms(root, options.pgBin);
    const makeServer = (name: string) => new Server(programs, join(root, name), name);
    const pair = [makeServer('a'), makeServer('b')] as const;
    servers.push(...pair);
    return await work(await openGround(root, options, pair, closers));
  } finally {
    for (const close of closers.toReversed()) {
      // One that has ended already does not keep the others from ending.
      await close().catch(() => {});
    }
    stopListening();
    clear();
  }
}

async function openGround(
  root: string,
  { bundle }: GroundOptions,
  [old, next]: readonly [Server, Server],
  closers: (() => Promise<unknown>)[],
): Promise<Ground> {
  const { programs } = old;
  const openWay = async (name: string, to: Server) => {
    const host = join(root, `to-${name}`);
    makeFolder(programs, host, 0o711);
    const link = await openLink(host, to.folder);
    closers.push(() => link.close());
    return link;
  };
  closers.push(
    () => old.crash(),
    () => next.crash(),
  );
  const [toOld, toNext] = [await openWay('a', old), await openWay('b', next)];
  await old.init();
  old.configure(settings);
  await old.start();
  const clonedBy = await clone(old, next);
  next.follow(toOld.host, { ...settings, synchronous_standby_names: old.name });
  await next.start();
  await old.alter('synchronous_standby_names', next.name);
  return {
    ...{ programs, old, next, toOld, toNext, clonedBy },
    async startRuntime({ url }) {
      const runtime = await RuntimeProcess.start({ bundle, url });
      closers.push(() => runtime.kill());
      return runtime;
    },
    async openSession(server) {
      const session = await openSession(server);
      closers.push(() => session.end());
      return session;
    },
  };
}
