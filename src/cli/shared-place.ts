// A database that several runtimes share, in the place of a data directory's own: handed in by the entry of its adapter,
// which no other file of the command line names.
import { EdgeError } from '../core/errors.ts';
import type { Alarm, Clock, Ids } from '../core/ports.ts';
import type { Leases, SharedStore } from '../store/leases.ts';
import type { Context } from './command.ts';

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

/** Throws `invalid` where none was named. */
export function placeOf({ shared }: Pick<Context, 'shared'>): SharedPlace {
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
