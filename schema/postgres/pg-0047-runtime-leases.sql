-- Several runtimes on one database. A runtime holds its workers row for as long as it says in time that it lives; a run
-- is carried on by the one worker that its lease names. Neither is part of a run's history.
CREATE TABLE ql3.workers (
  worker_id ql3.portable_id PRIMARY KEY,
  -- Where its commands run: boot and run directory, then its process.
  described text NOT NULL CHECK (octet_length(described) BETWEEN 1 AND 4096),
  -- Equal for those that can look after each other's commands.
  place text NOT NULL GENERATED ALWAYS AS (regexp_replace(described, ' process [0-9]+$', '')) STORED,
  registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at timestamptz NOT NULL
);

-- `token` rises with every claim of the run, so that it never fits twice. Not before `held_until` is a lease free, also
-- where its worker is not known yet to who asks. No foreign key: rows of runs that have ended are swept.
CREATE TABLE ql3.run_leases (
  run_id ql3.portable_id PRIMARY KEY,
  worker_id ql3.portable_id NOT NULL,
  token bigint NOT NULL CHECK (token >= 1),
  held_until timestamptz NOT NULL,
  -- Its worker has carried out the run's cancel intent: from here on no command of it starts.
  has_halted boolean NOT NULL DEFAULT false
);

CREATE INDEX leases_of_workers ON ql3.run_leases (worker_id);

-- First in every transaction that a runtime carries a run on by. The lock lasts until its end, so that nobody claims
-- the run meanwhile; the time is looked at when it begins.
CREATE FUNCTION ql3.check_lease(run text, worker text, held_token bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM ql3.run_leases AS l
  WHERE l.run_id = run AND l.worker_id = worker AND l.token = held_token
  FOR SHARE;
  IF NOT FOUND OR NOT EXISTS (
    SELECT FROM ql3.workers AS w WHERE w.worker_id = worker AND w.expires_at > clock_timestamp()
  ) THEN
    RAISE EXCEPTION 'the lease of run % is over', run USING ERRCODE = 'QL003';
  END IF;
END
$$;

-- The bytes of installed packages, so that every runtime runs the same; in pieces, each of which is soon sent.
CREATE TABLE ql3.package_contents (
  lock_digest ql3.digest NOT NULL,
  path text COLLATE "C" NOT NULL,
  piece integer NOT NULL CHECK (piece >= 0),
  bytes bytea NOT NULL CHECK (octet_length(bytes) <= 1048576),
  PRIMARY KEY (lock_digest, path, piece)
);

REVOKE ALL ON FUNCTION ql3.check_lease FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ql3.check_lease TO ql3_runtime;
GRANT SELECT, INSERT, UPDATE, DELETE ON ql3.workers, ql3.run_leases TO ql3_runtime;
GRANT SELECT ON ql3.package_contents TO ql3_runtime;
GRANT INSERT, DELETE ON ql3.package_contents TO ql3_manager;

SELECT ql3.change_capability(
  45, 46,
  '{"plugin_package_workflow_admission": 1, "workflow_task_attempt_admission": 1, "runtime_leases": 1}'
);
