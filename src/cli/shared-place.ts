// A database that several runtimes share, in the place of a data directory's own: handed in by the entry of its
// adapter, which no other file of the command line names.
import { EdgeError } from '../core/errors.ts';
import type { Alarm, Clock, Ids } from '../core/ports.ts';
import type { RuntimeSettings } from '../runtime/settings.ts';
import type { Verbs } from '../runtime/verbs.ts';
import type { ReadPort } from '../runtime/verification.ts';
import type { Leases, SharedStore } from '../store/leases.ts';
import type { Reader } from './storage.ts';

export type SharedPorts = { readonly clock: Clock; readonly alarm: Alarm; readonly ids: Ids };

export type SharedPlace = {
  /** How it is called where it is shown: no password is in it. */
  readonly name: string;
  /** Returns the ids of the migrations that were applied. */
  migrate(): Promise<readonly string[]>;
  /** Throws `unavailable` where it cannot be reached, or is not migrated. */
  openStore(ports: SharedPorts, log: (line: string) => void): Promise<SharedStore>;
  /** Opens no session before it is asked for something. */
  openLeases(ports: SharedPorts, leaseMs: number): Leases;
};

export type SharedOptions = {
  readonly data: string;
  readonly runDirectory: string | null;
  readonly settings: RuntimeSettings;
  readonly log: (line: string) => void;
};

export type SharedSession = {
  readonly verbs: Verbs;
  readonly reads: ReadPort;
  readonly runDirectory: string;
  close(): Promise<void>;
};

/** The same, with what commands do in it. No bundle but the cluster's has anything of that. */
export type SharedSite = SharedPlace & {
  openSession(options: SharedOptions): Promise<SharedSession>;
  openReader(): Promise<Reader>;
};

/** Throws `invalid` where none was named. */
export function placeOf({ shared }: { readonly shared: SharedSite | null }): SharedSite {
  if (shared === null) {
    throw placeMissing();
  }
  return shared;
}

export function placeMissing(): EdgeError {
  return new EdgeError('invalid', 'no database is named', {
    hint: 'give --store postgres://USER@HOST/DATABASE, or set QINGLONG_EDGE_STORE',
  });
}
