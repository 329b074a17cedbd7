-- Runs, steps and their history; packages and what makes them startable; the tables that describe the store itself.
--
-- A row is one record, exactly as the fold yields it, as jsonb; every other column is generated from it, so that none
-- can disagree with it. What the rules are is decided outside: functions here fence and bundle, and decide nothing. A
-- bound carries the name of its constant in src/core/limits.ts. A size is that of jsonb, four times the text at most.

CREATE DOMAIN ql3.identifier AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 128); -- identifierBytesMax
CREATE DOMAIN ql3.portable_id AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 36); -- portableIdBytesMax
CREATE DOMAIN ql3.resource_id AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 63); -- resourceIdBytesMax
CREATE DOMAIN ql3.digest AS bytea CHECK (octet_length(VALUE) = 32);
CREATE DOMAIN ql3.counter AS integer CHECK (VALUE >= 0);
CREATE DOMAIN ql3.time_ms AS bigint CHECK (VALUE BETWEEN 0 AND 9007199254740991);

-- Retention puts its one row in here and takes it out again in the same transaction: only meanwhile may rows of the
-- append-only tables be deleted. Nothing may ever change them, whoever owns them.
CREATE TABLE ql3.retention_gate (gate_id integer PRIMARY KEY CHECK (gate_id = 1));

CREATE TABLE ql3.migrations (
  id ql3.identifier PRIMARY KEY,
  sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE ql3.capabilities (
  name ql3.identifier PRIMARY KEY,
  version ql3.counter NOT NULL,
  features jsonb NOT NULL
);

INSERT INTO ql3.capabilities (name, version, features) VALUES ('control-core', 43, '{}');

-- Compare-and-set on the exact old version; a miss fails the migration.
CREATE FUNCTION ql3.change_capability(old_version integer, new_version integer, new_features jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE ql3.capabilities SET version = new_version, features = new_features
  WHERE name = 'control-core' AND version = old_version;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'control-core is not at version %', old_version USING ERRCODE = 'QL001';
  END IF;
END
$$;

-- For statements that move one row from an expected state: nothing else may be the outcome.
CREATE FUNCTION ql3.expect_one(matched bigint, what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF matched <> 1 THEN
    RAISE EXCEPTION '%', what USING ERRCODE = 'QL001';
  END IF;
END
$$;

-- The present state of runs: what folding a run's events yields. `run_number` only says which is newer.
CREATE TABLE ql3.runs (
  run_number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 65536), -- 4 × stepRunBytesMax
  run_id ql3.portable_id PRIMARY KEY GENERATED ALWAYS AS (record ->> 'id') STORED,
  project_id ql3.identifier NOT NULL GENERATED ALWAYS AS (record ->> 'projectId') STORED,
  package_name ql3.resource_id NOT NULL GENERATED ALWAYS AS (record ->> 'packageName') STORED,
  workflow_id ql3.resource_id NOT NULL GENERATED ALWAYS AS (record ->> 'workflowId') STORED,
  status text NOT NULL GENERATED ALWAYS AS (record ->> 'status') STORED
    CHECK (status IN ('running', 'succeeded', 'failed', 'cancelled', 'timed_out')),
  version ql3.counter NOT NULL GENERATED ALWAYS AS ((record ->> 'version')::integer) STORED,
  created_at_ms ql3.time_ms NOT NULL GENERATED ALWAYS AS ((record ->> 'createdAtMs')::bigint) STORED,
  cancel_requested_at_ms ql3.time_ms GENERATED ALWAYS AS ((record ->> 'cancelRequestedAtMs')::bigint) STORED,
  retry_of_run_id ql3.portable_id GENERATED ALWAYS AS (record ->> 'retryOfRunId') STORED,
  plan_digest ql3.digest NOT NULL GENERATED ALWAYS AS (decode(record ->> 'planDigest', 'hex')) STORED,
  digest ql3.digest NOT NULL GENERATED ALWAYS AS (decode(record ->> 'digest', 'hex')) STORED,
  CHECK ((record ->> 'finishedAtMs' IS NOT NULL) = (status <> 'running')),
  CHECK (record ->> 'version' = record ->> 'eventSequence')
);

-- Pages of running runs, oldest first: whatever looks for work reads this and never the finished runs.
CREATE INDEX running_runs ON ql3.runs (created_at_ms, plan_digest) WHERE status = 'running';
-- Runs that ended badly are few, and are what an operator looks for.
CREATE INDEX failed_runs ON ql3.runs (run_number) WHERE status IN ('failed', 'cancelled', 'timed_out');
CREATE INDEX retries ON ql3.runs (retry_of_run_id, run_number) WHERE retry_of_run_id IS NOT NULL;

-- The present state of steps. Derived ids are no keys: they are unique where the run and the step's key are.
CREATE TABLE ql3.step_runs (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 65536), -- 4 × stepRunBytesMax
  run_id ql3.portable_id NOT NULL GENERATED ALWAYS AS (record ->> 'runId') STORED,
  step_key ql3.resource_id NOT NULL GENERATED ALWAYS AS (record ->> 'stepKey') STORED,
  step_run_id ql3.portable_id NOT NULL GENERATED ALWAYS AS (record ->> 'id') STORED,
  status text NOT NULL GENERATED ALWAYS AS (record ->> 'status') STORED
    CHECK (
      status IN (
        'pending', 'ready', 'waiting_approval', 'running', 'lost', 'succeeded', 'failed', 'skipped', 'cancelled',
        'timed_out'
      )
    ),
  version ql3.counter NOT NULL GENERATED ALWAYS AS ((record ->> 'version')::integer) STORED,
  digest ql3.digest NOT NULL GENERATED ALWAYS AS (decode(record ->> 'digest', 'hex')) STORED,
  PRIMARY KEY (run_id, step_key),
  FOREIGN KEY (run_id) REFERENCES ql3.runs (run_id),
  CHECK ((record ->> 'attemptCount')::integer BETWEEN 0 AND 64), -- attemptsPerStepMax
  CHECK (
    (record ->> 'finishedAtMs' IS NOT NULL) = (status IN ('succeeded', 'failed', 'skipped', 'cancelled', 'timed_out'))
  ),
  CHECK (
    (record ->> 'resultCode' IS NOT NULL) = (status IN ('failed', 'skipped', 'cancelled', 'timed_out', 'lost'))
  )
);

-- The truth: one append-only fact a row.
CREATE TABLE ql3.run_events (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 65536), -- 4 × eventPayloadBytesMax
  run_id ql3.portable_id NOT NULL GENERATED ALWAYS AS (record ->> 'runId') STORED,
  sequence ql3.counter NOT NULL GENERATED ALWAYS AS ((record ->> 'sequence')::integer) STORED,
  type ql3.identifier NOT NULL GENERATED ALWAYS AS (record ->> 'type') STORED,
  PRIMARY KEY (run_id, sequence),
  FOREIGN KEY (run_id) REFERENCES ql3.runs (run_id)
);

-- Runs whose evidence was found damaged. Outside the fold, by id: the run's own rows are not to be believed.
CREATE TABLE ql3.set_aside (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 8192), -- 4 × errorSummaryBytesMax
  run_id ql3.portable_id PRIMARY KEY GENERATED ALWAYS AS (record ->> 'runId') STORED
);

-- What looks for work sees: running runs whose evidence is believed.
CREATE VIEW ql3.open_runs AS
SELECT r.run_id, r.package_name, r.workflow_id, r.created_at_ms, r.plan_digest, r.cancel_requested_at_ms
FROM ql3.runs AS r
LEFT JOIN ql3.set_aside AS a ON a.run_id = r.run_id
WHERE r.status = 'running' AND a.run_id IS NULL;

-- Keys that may sign packages. A revocation is this one fact, and nothing takes it back.
CREATE TABLE ql3.publishers (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 8192),
  key_id ql3.identifier PRIMARY KEY GENERATED ALWAYS AS (record ->> 'keyId') STORED,
  added_at_ms ql3.time_ms NOT NULL GENERATED ALWAYS AS ((record ->> 'addedAtMs')::bigint) STORED,
  revoked_at_ms ql3.time_ms GENERATED ALWAYS AS ((record ->> 'revokedAtMs')::bigint) STORED
);

-- Packages. A generation's digest vouches for what an installation is; only its state moves.
CREATE TABLE ql3.package_installations (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 8192),
  installation_id ql3.identifier PRIMARY KEY
    GENERATED ALWAYS AS (record #>> '{target,installationId}') STORED,
  project_id ql3.identifier NOT NULL GENERATED ALWAYS AS (record #>> '{target,projectId}') STORED,
  package_name ql3.resource_id NOT NULL GENERATED ALWAYS AS (record #>> '{target,packageName}') STORED,
  generation ql3.counter NOT NULL GENERATED ALWAYS AS ((record #>> '{target,generation}')::integer) STORED,
  lock_digest ql3.digest NOT NULL GENERATED ALWAYS AS (decode(record #>> '{target,lockDigest}', 'hex')) STORED,
  state text NOT NULL GENERATED ALWAYS AS (record ->> 'state') STORED
    CHECK (state IN ('staged', 'active', 'superseded', 'failed', 'removed')),
  publisher_key_id ql3.identifier GENERATED ALWAYS AS (record ->> 'publisherKeyId') STORED,
  UNIQUE (project_id, package_name, generation),
  FOREIGN KEY (publisher_key_id) REFERENCES ql3.publishers (key_id),
  CHECK ((record ->> 'signature' IS NULL) = (publisher_key_id IS NULL))
);

CREATE TABLE ql3.package_installation_heads (
  project_id ql3.identifier,
  package_name ql3.resource_id,
  installation_id ql3.identifier NOT NULL REFERENCES ql3.package_installations (installation_id),
  PRIMARY KEY (project_id, package_name)
);

-- Named by its own digest: two projects, or an uninstalled and again installed package, share a row.
CREATE TABLE ql3.materialized_revisions (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 16777216), -- 4 × revisionBytesMax
  revision_digest ql3.digest PRIMARY KEY GENERATED ALWAYS AS (decode(record ->> 'digest', 'hex')) STORED
);

-- Every file of a package with its mode, size and digest: what the lock digest is the digest of.
CREATE TABLE ql3.package_files (
  lock_digest ql3.digest PRIMARY KEY,
  files jsonb NOT NULL CHECK (pg_column_size(files) <= 33554432) -- 4 × packageFilesBytesMax
);

-- The digest chain that alone makes workflows startable, and its one head.
CREATE TABLE ql3.automation_publications (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 131072), -- 4 × publicationBytesMax
  project_id ql3.identifier NOT NULL GENERATED ALWAYS AS (record #>> '{target,projectId}') STORED,
  package_name ql3.resource_id NOT NULL GENERATED ALWAYS AS (record #>> '{target,packageName}') STORED,
  version ql3.counter NOT NULL GENERATED ALWAYS AS ((record ->> 'version')::integer) STORED,
  publication_digest ql3.digest NOT NULL GENERATED ALWAYS AS (decode(record ->> 'publicationDigest', 'hex')) STORED,
  PRIMARY KEY (project_id, package_name, version),
  CHECK ((record ->> 'previousPublicationDigest' IS NULL) = (version = 1))
);

CREATE TABLE ql3.automation_publication_heads (
  project_id ql3.identifier,
  package_name ql3.resource_id,
  version ql3.counter NOT NULL,
  publication_digest ql3.digest NOT NULL,
  PRIMARY KEY (project_id, package_name),
  FOREIGN KEY (project_id, package_name, version)
    REFERENCES ql3.automation_publications (project_id, package_name, version)
);

-- The state of an installation's lifecycle is that of its last event.
CREATE TABLE ql3.package_lifecycle_events (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 8192), -- 4 × errorSummaryBytesMax
  installation_id ql3.identifier NOT NULL GENERATED ALWAYS AS (record ->> 'installationId') STORED,
  sequence ql3.counter NOT NULL GENERATED ALWAYS AS ((record ->> 'sequence')::integer) STORED,
  PRIMARY KEY (installation_id, sequence),
  FOREIGN KEY (installation_id) REFERENCES ql3.package_installations (installation_id)
);

-- Permanent: nothing lifts one. The lock stands before the installation, because an install asks by lock alone.
CREATE TABLE ql3.package_quarantines (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 8192), -- 4 × errorSummaryBytesMax
  project_id ql3.identifier NOT NULL GENERATED ALWAYS AS (record ->> 'projectId') STORED,
  package_name ql3.resource_id NOT NULL GENERATED ALWAYS AS (record ->> 'packageName') STORED,
  lock_digest ql3.digest NOT NULL GENERATED ALWAYS AS (decode(record ->> 'lockDigest', 'hex')) STORED,
  installation_id ql3.identifier NOT NULL GENERATED ALWAYS AS (record ->> 'installationId') STORED,
  PRIMARY KEY (project_id, package_name, lock_digest, installation_id)
);

-- Holds no row. Every operation locks it in ACCESS SHARE mode before its snapshot is taken, whoever forbids something
-- (quarantine, revocation) in ACCESS EXCLUSIVE mode before it writes: so nothing is under way any more that does not
-- know of it when it is committed, and nothing starts from its commit on.
CREATE TABLE ql3.fence (fence_id integer PRIMARY KEY CHECK (false));

-- What the commands of a package of this name are given, through upgrades and uninstalling.
CREATE TABLE ql3.package_settings (
  project_id ql3.identifier,
  package_name ql3.resource_id,
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 524284), -- 4 × argumentBytesMax
  name ql3.resource_id NOT NULL GENERATED ALWAYS AS (record ->> 'name') STORED, -- settingNameBytesMax
  PRIMARY KEY (project_id, package_name, name)
);

CREATE FUNCTION ql3.refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM ql3.retention_gate) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME USING ERRCODE = 'QL002';
END
$$;

CREATE TRIGGER run_events_stay BEFORE UPDATE OR DELETE ON ql3.run_events
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_change();
CREATE TRIGGER materialized_revisions_stay BEFORE UPDATE OR DELETE ON ql3.materialized_revisions
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_change();
CREATE TRIGGER package_files_stay BEFORE UPDATE OR DELETE ON ql3.package_files
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_change();
CREATE TRIGGER automation_publications_stay BEFORE UPDATE OR DELETE ON ql3.automation_publications
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_change();
CREATE TRIGGER package_lifecycle_events_stay BEFORE UPDATE OR DELETE ON ql3.package_lifecycle_events
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_change();
CREATE TRIGGER package_quarantines_stay BEFORE UPDATE OR DELETE ON ql3.package_quarantines
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_change();

CREATE FUNCTION ql3.refuse_publisher_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.revoked_at_ms IS NULL
    AND NEW.record - '{revokedAtMs,revokeReason}'::text[] = OLD.record - '{revokedAtMs,revokeReason}'::text[]
  THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'publishers change once, when they are revoked' USING ERRCODE = 'QL002';
END
$$;

CREATE TRIGGER publishers_change_once BEFORE UPDATE OR DELETE ON ql3.publishers
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_publisher_change();

-- The guard: what forbids an installation to start anything. It tells the facts of tables that whoever asks cannot
-- read; that they still hold at COMMIT is what `fence` is for.
CREATE FUNCTION ql3.condemnation(project text, package text, installation text, lock text) RETURNS json
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN json_build_object(
  'quarantineReason',
  (
    SELECT q.record ->> 'reason' FROM ql3.package_quarantines AS q
    WHERE q.project_id = project AND q.package_name = package AND q.lock_digest = decode(lock, 'hex')
      AND q.installation_id = installation
  ),
  'isPublisherRevoked',
  EXISTS (
    SELECT FROM ql3.package_installations AS i
    JOIN ql3.publishers AS p ON p.key_id = i.publisher_key_id
    WHERE i.installation_id = installation AND p.revoked_at_ms IS NOT NULL
  )
);

-- The snapshot of a package: its heads and what they name, and what forbids it. `known` is the digest of a revision
-- that need not be told again.
CREATE FUNCTION ql3.package_snapshot(project text, package text, known text) RETURNS json
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT json_build_object(
    'installation', i.record,
    'publication', p.record,
    'lifecycle',
    (
      SELECT l.record FROM ql3.package_lifecycle_events AS l
      WHERE l.installation_id = i.installation_id ORDER BY l.sequence DESC LIMIT 1
    ),
    'revision',
    (
      SELECT m.record FROM ql3.materialized_revisions AS m
      WHERE m.revision_digest = decode(i.record #>> '{target,materializedRevisionDigest}', 'hex')
        AND m.revision_digest IS DISTINCT FROM decode(known, 'hex')
    ),
    'condemnation', ql3.condemnation(project, package, i.installation_id, i.record #>> '{target,lockDigest}')
  )
  FROM ql3.package_installation_heads AS h
  JOIN ql3.package_installations AS i ON i.installation_id = h.installation_id
  LEFT JOIN ql3.automation_publication_heads AS a ON a.project_id = h.project_id AND a.package_name = h.package_name
  LEFT JOIN ql3.automation_publications AS p ON p.project_id = a.project_id AND p.package_name = a.package_name
    AND p.version = a.version AND p.publication_digest = a.publication_digest
  WHERE h.project_id = project AND h.package_name = package;
END;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ql3 FROM PUBLIC;
GRANT USAGE ON SCHEMA ql3 TO ql3_runtime, ql3_manager;

GRANT SELECT ON ql3.migrations, ql3.capabilities, ql3.runs, ql3.open_runs, ql3.step_runs, ql3.run_events,
  ql3.set_aside, ql3.fence,
  ql3.package_installations, ql3.package_installation_heads, ql3.materialized_revisions, ql3.package_files,
  ql3.automation_publications, ql3.automation_publication_heads, ql3.package_lifecycle_events, ql3.package_settings
  TO ql3_runtime;
GRANT INSERT (record) ON ql3.runs, ql3.step_runs, ql3.run_events, ql3.set_aside TO ql3_runtime;
GRANT UPDATE (record) ON ql3.runs, ql3.step_runs, ql3.set_aside TO ql3_runtime;
GRANT DELETE ON ql3.set_aside TO ql3_runtime;
GRANT EXECUTE ON FUNCTION ql3.condemnation, ql3.package_snapshot, ql3.expect_one TO ql3_runtime;

GRANT SELECT ON ql3.publishers, ql3.package_quarantines TO ql3_manager;
GRANT INSERT ON ql3.publishers, ql3.package_quarantines, ql3.package_installations, ql3.package_installation_heads,
  ql3.materialized_revisions, ql3.package_files, ql3.automation_publications, ql3.automation_publication_heads,
  ql3.package_lifecycle_events, ql3.package_settings
  TO ql3_manager;
GRANT UPDATE (record) ON ql3.publishers, ql3.package_installations, ql3.package_settings TO ql3_manager;
GRANT UPDATE (installation_id) ON ql3.package_installation_heads TO ql3_manager;
GRANT UPDATE (version, publication_digest) ON ql3.automation_publication_heads TO ql3_manager;
GRANT DELETE ON ql3.package_settings TO ql3_manager;
-- What LOCK TABLE asks for; there is no row to update.
GRANT UPDATE ON ql3.fence TO ql3_manager;
