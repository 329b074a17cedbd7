-- Attempts; an attempt is admitted in one epoch of one step, and its row is the ledger entry of that admission.
-- `claim_number` only says which was admitted later.
CREATE TABLE ql3.run_attempts (
  claim_number bigint GENERATED ALWAYS AS IDENTITY,
  record jsonb NOT NULL CHECK (pg_column_size(record) <= 65536), -- 4 × stepRunBytesMax
  run_id ql3.portable_id NOT NULL GENERATED ALWAYS AS (record ->> 'runId') STORED,
  number ql3.counter NOT NULL GENERATED ALWAYS AS ((record ->> 'number')::integer) STORED,
  step_run_id ql3.portable_id NOT NULL GENERATED ALWAYS AS (record ->> 'stepRunId') STORED,
  step_run_version ql3.counter NOT NULL GENERATED ALWAYS AS ((record ->> 'stepRunVersion')::integer) STORED,
  status text NOT NULL GENERATED ALWAYS AS (record ->> 'status') STORED
    CHECK (status IN ('claimed', 'starting', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'lost')),
  digest ql3.digest NOT NULL GENERATED ALWAYS AS (decode(record ->> 'digest', 'hex')) STORED,
  PRIMARY KEY (run_id, number),
  UNIQUE (run_id, step_run_id, step_run_version),
  FOREIGN KEY (run_id) REFERENCES ql3.runs (run_id),
  CHECK ((record ->> 'bootId' IS NULL) = (record ->> 'startedAtMs' IS NULL)),
  CHECK (record ->> 'startedAtMs' IS NOT NULL OR status IN ('claimed', 'cancelled', 'timed_out', 'lost')),
  CHECK ((record ->> 'finishedAtMs' IS NOT NULL) = (status NOT IN ('claimed', 'starting', 'running')))
);

CREATE INDEX live_attempts ON ql3.run_attempts (claim_number) WHERE status IN ('claimed', 'starting', 'running');

-- The one way to write runs that exist: their events, and exactly the records that they change. Raises where a run, or
-- a record that changes, is not the one that the decision was made on. Each statement is for all of them: generated
-- columns and checks are made ready once a statement, which costs more than a row. By key whatever the statistics say,
-- for its plans are kept.
CREATE FUNCTION ql3.append(changes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  steps jsonb := jsonb_path_query_array(changes, '$[*].steps[*]');
  claims jsonb := jsonb_path_query_array(changes, '$[*].newAttempts[*]');
  attempts jsonb := jsonb_path_query_array(changes, '$[*].attempts[*]');
  changed integer;
BEGIN
  UPDATE ql3.runs AS r SET record = c.value -> 'run'
  FROM jsonb_array_elements(changes) AS c
  WHERE r.run_id = c.value #>> '{run,id}' AND r.version = (c.value ->> 'expectedVersion')::integer;
  GET DIAGNOSTICS changed = ROW_COUNT;
  IF changed <> jsonb_array_length(changes) THEN
    RAISE EXCEPTION 'runs are still at the versions that were read: %', changes #>> '{0,run,id}'
    USING ERRCODE = 'QL001';
  END IF;
  INSERT INTO ql3.run_events (record)
  SELECT e.value FROM jsonb_array_elements(changes) AS c, jsonb_array_elements(c.value -> 'events') AS e;
  IF jsonb_array_length(steps) > 0 THEN
    UPDATE ql3.step_runs AS s SET record = c.value -> 'record'
    FROM jsonb_array_elements(steps) AS c
    WHERE s.run_id = c.value #>> '{record,runId}' AND s.step_key = c.value #>> '{record,stepKey}'
      AND s.digest = decode(c.value ->> 'expectedDigest', 'hex');
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed <> jsonb_array_length(steps) THEN
      RAISE EXCEPTION 'steps are still those that were read' USING ERRCODE = 'QL001';
    END IF;
  END IF;
  IF jsonb_array_length(claims) > 0 THEN
    INSERT INTO ql3.run_attempts (record) SELECT value FROM jsonb_array_elements(claims);
  END IF;
  IF jsonb_array_length(attempts) > 0 THEN
    UPDATE ql3.run_attempts AS a SET record = c.value -> 'record'
    FROM jsonb_array_elements(attempts) AS c
    WHERE a.run_id = c.value #>> '{record,runId}' AND a.number = (c.value #>> '{record,number}')::integer
      AND a.digest = decode(c.value ->> 'expectedDigest', 'hex');
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed <> jsonb_array_length(attempts) THEN
      RAISE EXCEPTION 'attempts are still those that were read' USING ERRCODE = 'QL001';
    END IF;
  END IF;
END
$$;

-- Removes runs that have ended, whole, and returns how many. Their keys stay until they expire.
CREATE FUNCTION ql3.prune(run_ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ended text[];
BEGIN
  SELECT coalesce(array_agg(r.run_id::text), '{}') INTO ended
  FROM (
    SELECT run_id FROM ql3.runs WHERE run_id = ANY (run_ids) AND status <> 'running' ORDER BY run_id FOR UPDATE
  ) AS r;
  INSERT INTO ql3.retention_gate (gate_id) VALUES (1);
  DELETE FROM ql3.run_attempts WHERE run_id = ANY (ended);
  DELETE FROM ql3.plugin_package_workflow_admission_steps WHERE run_id = ANY (ended);
  DELETE FROM ql3.plugin_package_workflow_admissions WHERE run_id = ANY (ended);
  DELETE FROM ql3.run_events WHERE run_id = ANY (ended);
  DELETE FROM ql3.step_runs WHERE run_id = ANY (ended);
  DELETE FROM ql3.set_aside WHERE run_id = ANY (ended);
  DELETE FROM ql3.runs WHERE run_id = ANY (ended);
  DELETE FROM ql3.retention_gate;
  RETURN cardinality(ended);
END
$$;

-- A run with its steps and attempts: all of them, or those that have not ended. The ledger says how many steps it has.
CREATE FUNCTION ql3.run_rows(run jsonb, is_whole boolean) RETURNS json LANGUAGE sql STABLE
RETURN json_build_object(
  'run', run,
  'stepCount',
  (SELECT count(*) FROM ql3.plugin_package_workflow_admission_steps AS l WHERE l.run_id = run ->> 'id'),
  'steps', (SELECT json_agg(s.record ORDER BY s.step_key) FROM ql3.step_runs AS s WHERE s.run_id = run ->> 'id'),
  'attempts',
  (
    SELECT json_agg(a.record ORDER BY a.number) FROM ql3.run_attempts AS a
    WHERE a.run_id = run ->> 'id' AND (is_whole OR a.status IN ('claimed', 'starting', 'running'))
  )
);

-- Everything that an exact replay of the admission of a run looks at. Capped at the admission's own events: whatever
-- the run became since is none of its evidence.
CREATE FUNCTION ql3.admission_evidence(id text) RETURNS json LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT json_build_object(
    'plan', l.plan,
    'receipt', l.receipt,
    'ledger',
    (
      SELECT json_agg(s.record ORDER BY s.step_key) FROM ql3.plugin_package_workflow_admission_steps AS s
      WHERE s.run_id = l.run_id
    ),
    'events',
    (
      SELECT json_agg(e.record ORDER BY e.sequence) FROM ql3.run_events AS e
      WHERE e.run_id = l.run_id AND e.sequence <= jsonb_array_length(l.plan -> 'steps') + 1
    ),
    'present', (SELECT ql3.run_rows(r.record, false) FROM ql3.runs AS r WHERE r.run_id = l.run_id),
    'key', (SELECT k.record FROM ql3.admission_keys AS k WHERE k.plan_id = l.plan_id)
  )
  FROM ql3.plugin_package_workflow_admissions AS l WHERE l.run_id = id;
END;

REVOKE ALL ON FUNCTION ql3.append, ql3.prune, ql3.run_rows, ql3.admission_evidence FROM PUBLIC;
GRANT SELECT ON ql3.run_attempts TO ql3_runtime;
GRANT INSERT (record), UPDATE (record) ON ql3.run_attempts TO ql3_runtime;
GRANT EXECUTE ON FUNCTION ql3.append, ql3.prune, ql3.run_rows, ql3.admission_evidence TO ql3_runtime;

SELECT ql3.change_capability(
  44, 45, '{"plugin_package_workflow_admission": 1, "workflow_task_attempt_admission": 1}'
);
