// How a protocol is written: which rows it reads, and a pure function that decides. No SQL, no dialect, no clock, no
// randomness, no promise. A store's driver carries it out: in a SQLite savepoint, or in a PostgreSQL transaction that
// it can repeat from the start.
import type { AdmissionBundle } from '../core/admission.ts';
import type { EventDraft } from '../core/events.ts';
import type { PackageSetting } from '../core/package-setting.ts';
import type { Plan } from '../core/plan.ts';
import type { Now } from '../core/ports.ts';
import type { Installation, LifecycleEvent, Publication, Quarantine } from '../core/publication.ts';
import type { Publisher } from '../core/publisher.ts';
import type { RunRows } from '../core/records.ts';
import type { MaterializedRevision, PackageFile } from '../core/revision.ts';
import type { InstallationState } from '../core/states.ts';
import type { AdmissionKey, ReadRequest, RequestMap, RowsOf, SetAside } from './reads.ts';

/** What comes with the rows: one observation of time, and ids that stay the same when the operation is repeated. */
export type Circumstances = {
  readonly now: Now;
  readonly freshIds: readonly string[];
  /** Wall time is believed from here on: the bundle's build date. */
  readonly trustedFromMs: number;
};

/** Adds events to a run under a compare-and-set on its version. `rows` are those that the decision was made on. */
export type Append = { readonly rows: RunRows; readonly events: readonly EventDraft[] };

/** Writes beside the runs: the ledgers, heads and facts. A collision of an identity rolls the operation back. */
export type LedgerWrite =
  | { readonly write: 'admission'; readonly plan: Plan; readonly bundle: AdmissionBundle; readonly key: AdmissionKey }
  | { readonly write: 'installation'; readonly installation: Installation }
  | {
      readonly write: 'installation-state';
      readonly installationId: string;
      readonly from: InstallationState;
      readonly to: InstallationState;
    }
  /** Compare-and-set on the present head; null where there is none. */
  | {
      readonly write: 'installation-head';
      readonly installation: Installation;
      readonly expectedInstallationId: string | null;
    }
  | { readonly write: 'revision'; readonly revision: MaterializedRevision }
  /** Appends to the chain and moves its one head by compare-and-set. */
  | { readonly write: 'publication'; readonly publication: Publication }
  | { readonly write: 'lifecycle'; readonly event: LifecycleEvent }
  | { readonly write: 'quarantine'; readonly quarantine: Quarantine }
  /** Takes the place of the value that the setting has. */
  | {
      readonly write: 'setting';
      readonly projectId: string;
      readonly packageName: string;
      readonly setting: PackageSetting;
    }
  | {
      readonly write: 'clear-setting';
      readonly projectId: string;
      readonly packageName: string;
      readonly name: string;
    }
  | { readonly write: 'package-files'; readonly lockDigest: string; readonly files: readonly PackageFile[] }
  | { readonly write: 'publisher'; readonly publisher: Publisher }
  /** Of a publisher that is not revoked yet. */
  | { readonly write: 'revocation'; readonly keyId: string; readonly reason: string; readonly atMs: number }
  | { readonly write: 'set-aside'; readonly setAside: SetAside }
  | { readonly write: 'clear-set-aside'; readonly runId: string };

export type Decision<O> = {
  readonly outcome: O;
  readonly append?: Append;
  readonly ledger?: readonly LedgerWrite[];
  /** Operations that this one makes possible, for the same turn. */
  readonly follow?: readonly Operation[];
};

export type Protocol<I, L extends RequestMap, O> = {
  readonly name: string;
  /** How many fresh ids a decision needs; 0 by default. */
  readonly freshIds?: number;
  readonly load: (input: I) => L;
  readonly decide: (rows: RowsOf<L>, input: I, circumstances: Circumstances) => Decision<O>;
  /** The outcome where an identity turned out to be taken: nothing was written. Without it a collision is a defect. */
  readonly collided?: (input: I) => O;
};

/** Gives a protocol its types. */
export function protocol<I, L extends RequestMap, O>(definition: Protocol<I, L, O>): Protocol<I, L, O> {
  return definition;
}

/** A protocol with its input, waiting in an inbox. */
export type Operation<O = unknown> = {
  readonly name: string;
  readonly freshIds: number;
  readonly load: () => RequestMap;
  readonly decide: (rows: Readonly<Record<string, unknown>>, circumstances: Circumstances) => Decision<O>;
  readonly collided: (() => O) | null;
};

export function operation<I, L extends RequestMap, O>(definition: Protocol<I, L, O>, input: I): Operation<O> {
  const { collided } = definition;
  return {
    name: definition.name,
    freshIds: definition.freshIds ?? 0,
    load: () => definition.load(input),
    decide: (rows, circumstances) => definition.decide(rows as RowsOf<L>, input, circumstances),
    collided: collided === undefined ? null : () => collided(input),
  };
}

/** What it reads. */
export function requestsOf(operation: Operation): readonly ReadRequest[] {
  return Object.values(operation.load());
}
