// Where one bench measures: a folder of its own below the scratch, named after its process. It goes, with everybody who
// still runs in it, when the bench is over or is told to end; what a killed one left goes with the next.
import { mkdirSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { findProcessesOf, killProcess, readProcessEntry } from '../processes.ts';

export type Ground = {
  /** Without links; what is kept from one bench to the next lies here. */
  readonly scratch: string;
  readonly root: string;
  close(): void;
};

/** The same name, with the pid in it, for whatever else has to be cleared away behind a killed bench. */
export const ownName = `bench-${process.pid}`;

/** Whether the bench that made something under such a name is gone. */
export function isAbandoned(name: string): boolean {
  const pid = /^bench-(\d+)(?:-|$)/.exec(name)?.[1];
  return pid !== undefined && readProcessEntry(Number(pid)) === null;
}

export function openGround(folder: string): Ground {
  mkdirSync(folder, { recursive: true });
  const scratch = realpathSync(folder);
  for (const name of readdirSync(scratch).filter(isAbandoned)) {
    clear(join(scratch, name));
  }
  const root = join(scratch, ownName);
  mkdirSync(root);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      clear(root);
      process.exit(128 + constants.signals[signal]);
    });
  }
  return { scratch, root, close: () => clear(root) };
}

function clear(root: string): void {
  findProcessesOf(root).forEach(killProcess);
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
}
