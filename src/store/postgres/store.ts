// Puts the PostgreSQL store together: sessions, readiness, lanes. Owns nothing of the rules: protocols decide, this
// stores.
import { assert, isEdgeError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Alarm, Clock, Ids, Now } from '../../core/ports.ts';
import { type Operation, requestsOf } from '../../protocol/protocol.ts';
import { findRun, type ReadName, type ReadRequest, type Reads } from '../../protocol/reads.ts';
import type { Lease, SharedStore } from '../leases.ts';
import type { Settled, StoreInfo, TurnHooks } from '../store.ts';
import { bounds } from './bounds.ts';
import { type CarrierOptions, type Committed, carryOut } from './carrier.ts';
import type { Member } from './group.ts';
import { groupOfAdmissions } from './group-of-admissions.ts';
import { groupOfRuns } from './group-of-runs.ts';
import { createGroups } from './groups.ts';
import { Lanes } from './lanes.ts';
import { leaseStatement } from './leases.ts';
import { createLooks } from './looks.ts';
import { Pool } from './pool.ts';
import { checkReadiness } from './readiness.ts';
import { createReads } from './reads.ts';

export type PostgresStoreOptions = {
  /** `postgres://user:password@host/database`, with whatever else libpq's URLs say. */
  readonly url: string;
  /** Sessions at most: 1 to 32. */
  readonly connectionsMax?: number;
  /** Its uptime and boot id; the wall time of decisions is the database's. */
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly ids: Ids;
  /** Wall time is believed from here on: the bundle's build date. */
  readonly trustedFromMs: number;
  /** What nobody waits for, and yet must be known: an operation that followed another failed alone. */
  readonly report: { failed(operation: Operation | null, error: unknown): void };
  /** The time of a decision, given what the database's clock says; tests make it stand still. */
  readonly observe?: (databaseMs: number) => Now;
};

/** What may be hooked here: there is no turn whose end anything could still be added to. */
export type PostgresHooks = Pick<TurnHooks, 'committed' | 'doubted' | 'owed'>;

export type PostgresStore = SharedStore & {
  /** Sets the hooks; once, before the first submit. */
  attach(hooks: PostgresHooks): void;
  /** How often something was sent and waited for: what distance costs. */
  readonly roundTrips: number;
};

/**
 * Opens the store of a migrated database. Throws `unavailable` where the server cannot be reached, is older than 15,
 * only reads, or has another schema version; `damaged` naming what differs from this one.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<PostgresStore> {
  const { url, connectionsMax = bounds.connectionsDefault, clock, ids, observe } = options;
  assert(connectionsMax >= 1 && connectionsMax <= bounds.connectionsMax, 'a store has 1 to 32 sessions');
  const pool = new Pool(url, connectionsMax);
  let info: StoreInfo;
  try {
    const connection = await pool.acquire();
    try {
      info = await checkReadiness(connection);
    } finally {
      pool.release(connection);
    }
  } catch (error) {
    await pool.close();
    throw error;
  }
  const { alarm, trustedFromMs } = options;
  const carrying: CarrierOptions = {
    ...{ pool, clock, alarm, trustedFromMs, ...createReads() },
    observe: observe ?? ((databaseMs) => ({ ...clock.observe(), wallMs: databaseMs, isShared: true })),
    drawIds: ({ freshIds }) => Array.from({ length: freshIds }, () => ids.fresh()),
  };
  return createStore({ info, pool, carrying, report: options.report });
}

/** What is carried out, with the ids that it keeps however often it is tried. */
type Given = Member & { readonly lease: Lease | null };

type StoreParts = {
  readonly info: StoreInfo;
  readonly pool: Pool;
  readonly carrying: CarrierOptions;
  readonly report: PostgresStoreOptions['report'];
};

function createStore({ info, pool, carrying, report }: StoreParts): PostgresStore {
  const lanes = new Lanes(limits.operationsPendingMax);
  let hooks: PostgresHooks | null = null;
  const owe = (operation: Operation, error: unknown) => {
    report.failed(operation, error);
    hooks?.owed?.(operation, error);
  };
  const operate = async (given: Given): Promise<unknown> => {
    const committed = await carryOutOrDoubt(given);
    if (committed.settled.length > 0) {
      hooks?.committed(committed.settled);
    }
    for (const failure of committed.failures) {
      owe(failure.operation, failure.error);
    }
    for (const rest of committed.rest) {
      const followed = () => operate({ ...given, operation: rest, freshIds: carrying.drawIds(rest) });
      lanes.continue(findRun(requestsOf(rest)), followed).catch((error: unknown) => owe(rest, error));
    }
    return committed.outcome;
  };
  const carryOutOrDoubt = async ({ lease, ...given }: Given): Promise<Committed> => {
    try {
      return await carryOut({ ...given, lease: lease === null ? null : leaseStatement(lease) }, carrying);
    } catch (error) {
      if (isEdgeError(error) && error.code === 'unknown-outcome') {
        hooks?.doubted?.();
      }
      throw error;
    }
  };
  const look = createLooks(carrying);
  const grouping = {
    carrying,
    committed: (settled: readonly Settled[]) => hooks?.committed(settled),
    doubted: () => hooks?.doubted?.(),
  };
  const runs = createGroups({ ...grouping, kind: groupOfRuns(carrying), alone: operate });
  const alone = (member: Member) => operate({ ...member, lease: null });
  const others = createGroups({ ...grouping, kind: groupOfAdmissions(carrying), alone });
  return {
    info,
    get roundTrips() {
      return pool.roundTrips;
    },
    attach(attached) {
      assert(hooks === null, 'hooks are attached once');
      hooks = attached;
    },
    submit: <O>(operation: Operation<O>) =>
      lanes.accept(findRun(requestsOf(operation)), () => others({ operation })) as Promise<O>,
    submitUnder: <O>(operation: Operation<O>, lease: Lease) =>
      lanes.accept(lease.runId, () => runs({ operation, lease })) as Promise<O>,
    read: <N extends ReadName>(request: ReadRequest<N>): Promise<Reads[N]['rows']> =>
      lanes.accept(findRun([request as ReadRequest]), () => look(request)),
    async close() {
      await lanes.close();
      await pool.close();
    },
  };
}
