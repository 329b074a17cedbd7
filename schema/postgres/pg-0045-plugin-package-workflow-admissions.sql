-- The evidence of admissions: what was planned, for which generation, and what it became.

CREATE TABLE ql3.plugin_package_workflow_admissions (
  plan jsonb NOT NULL CHECK (pg_column_size(plan) <= 1048576), -- 4 × planBytesMax
  receipt jsonb NOT NULL CHECK (pg_column_size(receipt) <= 1048576), -- 4 × receiptBytesMax
  run_id ql3.portable_id PRIMARY KEY GENERATED ALWAYS AS (plan ->> 'runId') STORED REFERENCES ql3.runs (run_id),
  plan_id ql3.portable_id NOT NULL UNIQUE GENERATED ALWAYS AS (plan ->> 'planId') STORED,
  plan_digest ql3.digest NOT NULL GENERATED ALWAYS AS (decode(plan ->> 'planDigest', 'hex')) STORED,
  CHECK (receipt ->> 'runId' = run_id AND receipt ->> 'planId' = plan_id)
);

-- One row a step: what the plan and the receipt say of it. `needs` also tells which running runs can move.
CREATE TABLE ql3.plugin_package_workflow_admission_steps (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 65536), -- 4 × stepRunBytesMax
  run_id ql3.portable_id NOT NULL GENERATED ALWAYS AS (record ->> 'runId') STORED,
  step_key ql3.resource_id NOT NULL GENERATED ALWAYS AS (record ->> 'stepKey') STORED,
  needs jsonb NOT NULL GENERATED ALWAYS AS (record -> 'needs') STORED CHECK (jsonb_typeof(needs) = 'array'),
  PRIMARY KEY (run_id, step_key),
  FOREIGN KEY (run_id) REFERENCES ql3.plugin_package_workflow_admissions (run_id)
);

-- Plan ids and idempotency keys. Refers to no run row: it outlives pruning, until the key expires.
CREATE TABLE ql3.admission_keys (
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 8192),
  plan_id ql3.portable_id PRIMARY KEY GENERATED ALWAYS AS (record ->> 'planId') STORED,
  project_id ql3.identifier NOT NULL GENERATED ALWAYS AS (record ->> 'projectId') STORED,
  idempotency_key ql3.identifier GENERATED ALWAYS AS (record ->> 'idempotencyKey') STORED,
  expires_at_ms ql3.time_ms NOT NULL GENERATED ALWAYS AS ((record ->> 'expiresAtMs')::bigint) STORED
);

CREATE UNIQUE INDEX idempotency_keys ON ql3.admission_keys (project_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;

CREATE TRIGGER plugin_package_workflow_admissions_stay
  BEFORE UPDATE OR DELETE ON ql3.plugin_package_workflow_admissions
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_change();
CREATE TRIGGER plugin_package_workflow_admission_steps_stay
  BEFORE UPDATE OR DELETE ON ql3.plugin_package_workflow_admission_steps
  FOR EACH ROW EXECUTE FUNCTION ql3.refuse_change();

-- Inserts admissions whole. An identity that is taken is a unique violation, and everything is rolled back.
CREATE FUNCTION ql3.admit(admissions jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO ql3.runs (record) SELECT a.value -> 'run' FROM jsonb_array_elements(admissions) AS a;
  INSERT INTO ql3.step_runs (record)
  SELECT s.value FROM jsonb_array_elements(admissions) AS a, jsonb_array_elements(a.value -> 'steps') AS s;
  INSERT INTO ql3.run_events (record)
  SELECT e.value FROM jsonb_array_elements(admissions) AS a, jsonb_array_elements(a.value -> 'events') AS e;
  INSERT INTO ql3.plugin_package_workflow_admissions (plan, receipt)
  SELECT a.value -> 'plan', a.value -> 'receipt' FROM jsonb_array_elements(admissions) AS a;
  INSERT INTO ql3.plugin_package_workflow_admission_steps (record)
  SELECT l.value FROM jsonb_array_elements(admissions) AS a, jsonb_array_elements(a.value -> 'ledger') AS l;
  INSERT INTO ql3.admission_keys (record) SELECT a.value -> 'key' FROM jsonb_array_elements(admissions) AS a;
END
$$;

-- Running runs without a cancel intent whose installation is quarantined, or signed by a key that was revoked.
CREATE FUNCTION ql3.condemned_runs(after_ms bigint, after_digest bytea, page_length integer)
RETURNS TABLE (run_id text, created_at_ms bigint, plan_digest bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT r.run_id, r.created_at_ms, r.plan_digest
  FROM ql3.open_runs AS r
  JOIN ql3.plugin_package_workflow_admissions AS l ON l.run_id = r.run_id
  WHERE r.cancel_requested_at_ms IS NULL AND (r.created_at_ms, r.plan_digest) > (after_ms, after_digest)
    AND (
      EXISTS (
        SELECT FROM ql3.package_quarantines AS q
        WHERE q.project_id = l.plan #>> '{target,projectId}' AND q.package_name = l.plan #>> '{target,packageName}'
          AND q.lock_digest = decode(l.plan #>> '{target,lockDigest}', 'hex')
          AND q.installation_id = l.plan #>> '{target,installationId}'
      )
      OR EXISTS (
        SELECT FROM ql3.package_installations AS i
        JOIN ql3.publishers AS p ON p.key_id = i.publisher_key_id
        WHERE i.installation_id = l.plan #>> '{target,installationId}' AND p.revoked_at_ms IS NOT NULL
      )
    )
  ORDER BY r.created_at_ms, r.plan_digest LIMIT page_length;
END;

REVOKE ALL ON FUNCTION ql3.admit, ql3.condemned_runs FROM PUBLIC;
GRANT SELECT ON ql3.plugin_package_workflow_admissions, ql3.plugin_package_workflow_admission_steps,
  ql3.admission_keys TO ql3_runtime;
GRANT INSERT (plan, receipt) ON ql3.plugin_package_workflow_admissions TO ql3_runtime;
GRANT INSERT (record) ON ql3.plugin_package_workflow_admission_steps, ql3.admission_keys TO ql3_runtime;
GRANT EXECUTE ON FUNCTION ql3.admit, ql3.condemned_runs TO ql3_runtime;

SELECT ql3.change_capability(43, 44, '{"plugin_package_workflow_admission": 1}');
