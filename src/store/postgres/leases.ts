// Leases: which runtime carries which run on. Owns their statements, on a session of its own so that saying in time
// that one lives never waits behind work; decides nothing about when.
import type { Alarm, Clock } from '../../core/ports.ts';
import type { HeldLease, Lease, Leases, WorkerState } from '../leases.ts';
import { type AnsweredRows, Asked } from './asked.ts';
import type { Statement } from './connection.ts';
import { createContents } from './contents.ts';
import { gather } from './gathered.ts';
import { channel, Listener } from './listener.ts';
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
// its lease is compared with what was seen. Rows of workers that are over are written as they are: a renewal that has
// begun in time is waited for and seen, and one that comes behind looks at the time again.
//
// A worker of the same place may follow at once, also where it has no slot: it sees what runs. To any other one what
// was started is lost, so that it waits: until it has lived for a lease (where all come back at the same time, as after
// a database that was away, each finds its own first), and for as long again where a worker of that place lives.
const claimSql = `WITH me AS MATERIALIZED (
    SELECT place, registered_at < clock_timestamp() - :leaseMs::integer * interval '1 millisecond' AS is_settled
    FROM ql3.workers WHERE worker_id = :workerId AND expires_at > clock_timestamp()
  ), ours AS MATERIALIZED (
    SELECT r.run_id, l.token, w.worker_id AS former
    FROM me
    JOIN ql3.workers AS w ON w.place = me.place AND w.expires_at < clock_timestamp()
    JOIN ql3.run_leases AS l ON l.worker_id = w.worker_id
    JOIN ql3.runs AS r ON r.run_id = l.run_id
    WHERE r.status = 'running'
      AND NOT EXISTS (SELECT FROM ql3.set_aside AS s WHERE s.run_id = r.run_id)
      AND EXISTS (SELECT FROM ql3.run_attempts AS a WHERE a.run_id = r.run_id AND a.status IN ('starting', 'running'))
    FOR UPDATE OF r SKIP LOCKED
  ), free AS MATERIALIZED (
    SELECT r.run_id, coalesce(l.token, 0) AS token, w.worker_id AS former
    FROM me CROSS JOIN ql3.runs AS r
    LEFT JOIN ql3.run_leases AS l ON l.run_id = r.run_id
    LEFT JOIN ql3.workers AS w ON w.worker_id = l.worker_id
    WHERE r.status = 'running'
      AND NOT EXISTS (SELECT FROM ql3.set_aside AS s WHERE s.run_id = r.run_id)
      AND (l.run_id IS NULL
        OR coalesce(w.expires_at < clock_timestamp(), true) AND (
          w.place = me.place
          OR l.held_until < clock_timestamp() AND (
            NOT EXISTS (
              SELECT FROM ql3.run_attempts AS a WHERE a.run_id = r.run_id AND a.status IN ('starting', 'running')
            )
            OR me.is_settled AND (
              greatest(l.held_until, w.expires_at) < clock_timestamp() - :leaseMs::integer * interval '1 millisecond'
              OR NOT EXISTS (
                SELECT FROM ql3.workers AS n WHERE n.place = w.place AND n.expires_at > clock_timestamp()
              )
            )
          )
        ))
      AND NOT jsonb_exists(:full, r.package_name || '/' || r.workflow_id)
    ORDER BY r.created_at_ms, r.plan_digest
    LIMIT :limit
    FOR UPDATE OF r SKIP LOCKED
  ), over_now AS MATERIALIZED (
    UPDATE ql3.workers AS w SET expires_at = w.expires_at
    FROM (
      SELECT d.worker_id FROM ql3.workers AS d
      WHERE d.expires_at < clock_timestamp()
        AND EXISTS (SELECT FROM ql3.run_leases AS l WHERE l.worker_id = d.worker_id)
      ORDER BY d.worker_id
      FOR UPDATE
    ) AS dead
    WHERE w.worker_id = dead.worker_id AND w.expires_at < clock_timestamp()
    RETURNING w.worker_id
  )
  INSERT INTO ql3.run_leases AS held (run_id, worker_id, token, held_until)
  SELECT run_id, :workerId, token + 1, clock_timestamp() + :leaseMs::integer * interval '1 millisecond'
  FROM (SELECT * FROM ours UNION SELECT * FROM free) AS either
  WHERE former IS NULL OR former IN (SELECT worker_id FROM over_now)
  ON CONFLICT (run_id) DO UPDATE
    SET worker_id = excluded.worker_id, token = excluded.token, held_until = excluded.held_until, has_halted = false
    WHERE held.token = excluded.token - 1
  RETURNING run_id, token`;
// Its token stays, so that it never fits twice; a worker of that name there is none.
const releaseSql = `UPDATE ql3.run_leases AS l SET worker_id = 'nobody', held_until = '-infinity'
  FROM jsonb_to_recordset(:leases) AS d ("runId" text, "workerId" text, token bigint)
  WHERE l.run_id = d."runId" AND l.worker_id = d."workerId" AND l.token = d.token`;
// Of one that was set aside the run may go on some day: its token stays as well.
const dropSql = `WITH d AS MATERIALIZED (
    SELECT d.*, EXISTS (SELECT FROM ql3.runs AS r WHERE r.run_id = d."runId" AND r.status = 'running') AS goes_on
    FROM jsonb_to_recordset(:leases) AS d ("runId" text, "workerId" text, token bigint)
  ), kept AS (
    UPDATE ql3.run_leases AS l SET worker_id = 'nobody', held_until = '-infinity' FROM d
    WHERE d.goes_on AND l.run_id = d."runId" AND l.worker_id = d."workerId" AND l.token = d.token
  )
  DELETE FROM ql3.run_leases AS l USING d
  WHERE NOT d.goes_on AND l.run_id = d."runId" AND l.worker_id = d."workerId" AND l.token = d.token`;
const heldSql = `SELECT l.run_id, l.token,
    NOT EXISTS (SELECT FROM ql3.open_runs AS r WHERE r.run_id = l.run_id) AS is_over
  FROM ql3.run_leases AS l WHERE l.worker_id = :workerId`;
const timeSql = 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms';
// What runs on is kept for whoever comes next in that place; for no longer than if nothing had been said.
const resignSql = `WITH gone AS (
    UPDATE ql3.workers SET expires_at = clock_timestamp() WHERE worker_id = :workerId AND expires_at > clock_timestamp()
  )
  UPDATE ql3.run_leases AS l SET held_until = CASE
    WHEN EXISTS (
      SELECT FROM ql3.run_attempts AS a WHERE a.run_id = l.run_id AND a.status IN ('starting', 'running')
    ) THEN clock_timestamp() + :leaseMs::integer * interval '1 millisecond'
    ELSE '-infinity'
  END
  WHERE l.worker_id = :workerId`;
const toHaltSql = `SELECT l.run_id FROM ql3.run_leases AS l JOIN ql3.runs AS r ON r.run_id = l.run_id
  WHERE l.worker_id = :workerId AND NOT l.has_halted AND r.status = 'running'
    AND r.record ->> 'cancelRequestedAtMs' IS NOT NULL`;
const haltedSql = `UPDATE ql3.run_leases SET has_halted = true
  WHERE run_id = :runId AND worker_id = :workerId AND token = :token`;
const findSql = `SELECT l.worker_id, l.has_halted, coalesce(w.described, '') AS described,
    l.held_until > clock_timestamp() OR coalesce(w.expires_at > clock_timestamp(), false) AS is_held
  FROM ql3.run_leases AS l LEFT JOIN ql3.workers AS w ON w.worker_id = l.worker_id WHERE l.run_id = :runId`;
const workersSql = `SELECT w.worker_id, w.described,
    (SELECT count(*) FROM ql3.run_leases AS l WHERE l.worker_id = w.worker_id) AS runs
  FROM ql3.workers AS w WHERE w.expires_at > clock_timestamp() ORDER BY w.worker_id`;
const notifySql = 'SELECT pg_notify(:channel, w.what) FROM jsonb_array_elements_text(:words) AS w (what)';
const leasesSql = `SELECT ql3.check_lease(l."runId", l."workerId", l.token)
  FROM jsonb_to_recordset(:leases) AS l ("runId" text, "workerId" text, token bigint)`;
const leaseSql = 'SELECT ql3.check_lease(:runId, :workerId, :token)';

/** Raises QL003 where the lease is over. */
export function leaseStatement({ runId, workerId, token }: Lease): Statement {
  return statement(leaseSql, { runId, workerId, token });
}

/** Raises QL003 where one of them is over. */
export function leasesStatement(leases: readonly Lease[]): Statement {
  return statement(leasesSql, { leases: JSON.stringify(leases) });
}

/** Whoever gets no answer for a quarter of the lease asks on another session; not sooner than any way may take. */
const beatMsMin = 500;

export type LeasesOptions = {
  readonly url: string;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly alarm: Alarm;
};

/** Opens no session before it is asked for something. */
export function openLeases(options: LeasesOptions): Leases {
  const { url, leaseMs } = options;
  const session = new Asked({ url, doing: 'look after leases' });
  // On a session of its own: nothing that waits for a lock must keep it from being said in time that one lives.
  const beats = new Asked({ url, doing: 'renew a lease', answerMsMax: Math.max(beatMsMin, Math.floor(leaseMs / 4)) });
  const contents = new Asked({ url, doing: 'share the files of packages' });
  let listener: Listener | null = null;
  const ask = (sql: string, values: Values) => session.ask(sql, values);
  const renew = async (workerId: string) => (await beats.ask(renewSql, { workerId, leaseMs })).length === 1;
  const time = async () => Number((await beats.ask(timeSql, {}))[0]?.['now_ms']);
  const asking: Omit<Leases, 'leaseMs' | 'renew' | 'time' | 'listen' | 'close'> = {
    async register(workerId, described) {
      await ask(sweepSql, {});
      await ask(registerSql, { workerId, described, leaseMs });
    },
    async claim(workerId, limit, full = []) {
      const rows = await ask(claimSql, { workerId, limit, leaseMs, full: JSON.stringify(full) });
      return rows.map((row) => ({ runId: `${row['run_id']}`, workerId, token: Number(row['token']) }));
    },
    drop: gather(async (ended: readonly Lease[]) => void (await ask(dropSql, { leases: JSON.stringify(ended) }))),
    release: gather(async (left: readonly Lease[]) => void (await ask(releaseSql, { leases: JSON.stringify(left) }))),
    held: async (workerId) => (await ask(heldSql, { workerId })).map((row) => readHeld(row, workerId)),
    resign: async (workerId) => void (await ask(resignSql, { workerId, leaseMs })),
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
    workers: async () => (await ask(workersSql, {})).map(readWorker),
    notify: gather(async (words: readonly string[]) => {
      await ask(notifySql, { channel, words: JSON.stringify([...new Set(words)]) });
    }),
    ...createContents((sql, values) => contents.ask(sql, values)),
  };
  return {
    leaseMs,
    register: session.waitedFor(asking.register),
    renew: beats.waitedFor(renew),
    claim: session.waitedFor(asking.claim),
    drop: session.waitedFor(asking.drop),
    release: session.waitedFor(asking.release),
    held: session.waitedFor(asking.held),
    time: beats.waitedFor(time),
    resign: session.waitedFor(asking.resign),
    toHalt: session.waitedFor(asking.toHalt),
    noteHalted: session.waitedFor(asking.noteHalted),
    find: session.waitedFor(asking.find),
    workers: session.waitedFor(asking.workers),
    notify: session.waitedFor(asking.notify),
    putContents: contents.waitedFor(asking.putContents),
    getContents: contents.waitedFor(asking.getContents),
    listen(onWord) {
      listener = new Listener({ ...options, onWord });
    },
    async close() {
      await listener?.close();
      await beats.close();
      await contents.close();
      await session.close();
    },
  };
}

function readWorker(row: AnsweredRows[number]): WorkerState {
  return { workerId: `${row['worker_id']}`, described: `${row['described']}`, runs: Number(row['runs']) };
}

function readHeld(row: AnsweredRows[number], workerId: string): HeldLease {
  return { runId: `${row['run_id']}`, workerId, token: Number(row['token']), isOver: row['is_over'] === 't' };
}
