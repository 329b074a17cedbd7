// Leases: which runtime carries which run on. Owns their statements, on a session of its own so that saying in time
// that one lives never waits behind work; decides nothing about when.
import type { Alarm, Clock } from '../../core/ports.ts';
import type { Lease, Leases } from '../leases.ts';
import type { Connection, Statement } from './connection.ts';
import { toEdgeError } from './failure.ts';
import { gather } from './gathered.ts';
import { channel, Listener } from './listener.ts';
import { Pool } from './pool.ts';
import { statement, type Values } from './query.ts';

const registerSql = `INSERT INTO ql3.workers (worker_id, described, expires_at)
  VALUES (:workerId, :described, clock_timestamp() + :leaseMs::integer * interval '1 millisecond')`;
const sweepSql = `WITH dead AS (
    DELETE FROM ql3.workers WHERE expires_at < clock_timestamp() - interval '1 day'
  )
  DELETE FROM ql3.run_leases AS l
  WHERE NOT EXISTS (SELECT FROM ql3.runs AS r WHERE r.run_id = l.run_id AND r.status = 'running')`;
const renewSql = `UPDATE ql3.workers SET expires_at = clock_timestamp() + :leaseMs::integer * interval '1 millisecond'
  WHERE worker_id = :workerId AND expires_at > clock_timestamp() RETURNING worker_id`;
// One statement, READ COMMITTED. The run's row is locked first, which a transaction under an old lease holds as well;
// its lease is looked at again as it is now.
const claimSql = `WITH free AS MATERIALIZED (
    SELECT r.run_id
    FROM ql3.runs AS r
    LEFT JOIN ql3.run_leases AS l ON l.run_id = r.run_id
    LEFT JOIN ql3.workers AS w ON w.worker_id = l.worker_id
    WHERE r.status = 'running'
      AND NOT EXISTS (SELECT FROM ql3.set_aside AS s WHERE s.run_id = r.run_id)
      AND (l.run_id IS NULL
        OR l.held_until < clock_timestamp() AND coalesce(w.expires_at < clock_timestamp(), true))
    ORDER BY r.created_at_ms, r.plan_digest
    LIMIT :limit
    FOR UPDATE OF r SKIP LOCKED
  )
  INSERT INTO ql3.run_leases AS held (run_id, worker_id, token, held_until)
  SELECT run_id, :workerId, 1, clock_timestamp() + :leaseMs::integer * interval '1 millisecond' FROM free
  ON CONFLICT (run_id) DO UPDATE
    SET worker_id = excluded.worker_id, token = held.token + 1, held_until = excluded.held_until, has_halted = false
    WHERE held.held_until < clock_timestamp() AND NOT EXISTS (
      SELECT FROM ql3.workers AS w WHERE w.worker_id = held.worker_id AND w.expires_at > clock_timestamp()
    )
  RETURNING run_id, token`;
const dropSql = `DELETE FROM ql3.run_leases AS l
  USING jsonb_to_recordset(:leases) AS d ("runId" text, "workerId" text, token bigint)
  WHERE l.run_id = d."runId" AND l.worker_id = d."workerId" AND l.token = d.token`;
const resignSql = `WITH gone AS (DELETE FROM ql3.workers WHERE worker_id = :workerId)
  UPDATE ql3.run_leases SET held_until = '-infinity' WHERE worker_id = :workerId`;
const toHaltSql = `SELECT l.run_id FROM ql3.run_leases AS l JOIN ql3.runs AS r ON r.run_id = l.run_id
  WHERE l.worker_id = :workerId AND NOT l.has_halted AND r.status = 'running'
    AND r.record ->> 'cancelRequestedAtMs' IS NOT NULL`;
const haltedSql = `UPDATE ql3.run_leases SET has_halted = true
  WHERE run_id = :runId AND worker_id = :workerId AND token = :token`;
const findSql = `SELECT l.worker_id, l.has_halted, coalesce(w.described, '') AS described,
    l.held_until > clock_timestamp() OR coalesce(w.expires_at > clock_timestamp(), false) AS is_held
  FROM ql3.run_leases AS l LEFT JOIN ql3.workers AS w ON w.worker_id = l.worker_id WHERE l.run_id = :runId`;
const notifySql = 'SELECT pg_notify(:channel, w.what) FROM jsonb_array_elements_text(:words) AS w (what)';
const putSql = `INSERT INTO ql3.package_contents (lock_digest, path, bytes)
  VALUES (decode(:lockDigest, 'hex'), :path, decode(:bytes, 'base64')) ON CONFLICT DO NOTHING`;
const getSql = `SELECT encode(bytes, 'base64') AS bytes FROM ql3.package_contents
  WHERE lock_digest = decode(:lockDigest, 'hex') AND path = :path`;
const leasesSql = `SELECT ql3.check_lease(l."runId", l."workerId", l.token)
  FROM jsonb_to_recordset(:leases) AS l ("runId" text, "workerId" text, token bigint)`;
const leaseSql = 'SELECT ql3.check_lease(:runId, :workerId, :token)';

/** Raises QL002 where the lease is over. */
export function leaseStatement({ runId, workerId, token }: Lease): Statement {
  return statement(leaseSql, { runId, workerId, token });
}

/** Raises QL002 where one of them is over. */
export function leasesStatement(leases: readonly Lease[]): Statement {
  return statement(leasesSql, { leases: JSON.stringify(leases) });
}

export type LeasesOptions = {
  readonly url: string;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly alarm: Alarm;
};

/** Opens no session before it is asked for something. */
export function openLeases(options: LeasesOptions): Leases {
  const { url, leaseMs } = options;
  const pool = new Pool(url, 1);
  let listener: Listener | null = null;
  const ask = (sql: string, values: Values) => askPool(pool, statement(sql, values));
  return {
    leaseMs,
    async register(workerId, described) {
      await ask(sweepSql, {});
      await ask(registerSql, { workerId, described, leaseMs });
    },
    renew: async (workerId) => (await ask(renewSql, { workerId, leaseMs })).length === 1,
    async claim(workerId, limit) {
      const rows = await ask(claimSql, { workerId, limit, leaseMs });
      return rows.map((row) => ({ runId: `${row['run_id']}`, workerId, token: Number(row['token']) }));
    },
    drop: gather(async (ended: readonly Lease[]) => void (await ask(dropSql, { leases: JSON.stringify(ended) }))),
    resign: async (workerId) => void (await ask(resignSql, { workerId })),
    toHalt: async (workerId) => (await ask(toHaltSql, { workerId })).map((row) => `${row['run_id']}`),
    noteHalted: async (lease) => void (await ask(haltedSql, lease)),
    async find(runId) {
      const [row] = await ask(findSql, { runId });
      return row === undefined
        ? null
        : {
            isHeld: row['is_held'] === 't',
            workerId: `${row['worker_id']}`,
            described: `${row['described']}`,
            hasHalted: row['has_halted'] === 't',
          };
    },
    notify: gather(async (words: readonly string[]) => {
      await ask(notifySql, { channel, words: JSON.stringify([...new Set(words)]) });
    }),
    listen(onWord) {
      listener = new Listener({ ...options, onWord });
    },
    async putContents(lockDigest, files) {
      for (const { path, bytes } of files) {
        await ask(putSql, { lockDigest, path, bytes: Buffer.from(bytes).toString('base64') });
      }
    },
    async getContents(lockDigest, path) {
      const [row] = await ask(getSql, { lockDigest, path });
      return row === undefined ? null : Buffer.from(`${row['bytes']}`, 'base64');
    },
    async close() {
      await listener?.close();
      await pool.close();
    },
  };
}

async function askPool(pool: Pool, sent: Statement): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const connection: Connection = await pool.acquire();
  try {
    const [answer] = await connection.exchange([sent]);
    if (answer === undefined || 'error' in answer) {
      throw toEdgeError(answer?.error, 'look after leases');
    }
    return answer.rows;
  } finally {
    pool.release(connection);
  }
}
