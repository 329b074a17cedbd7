-- The evidence of admissions, readable and checkable on its own: what was planned, for which generation, and what it
-- became. Every column is compared with the plan, and with the receipt that plan and first event make, whenever an
-- admission is replayed. The receipt's text would say all of this a third time (3 KiB for 8 steps): these columns and
-- its digest are the receipt.

CREATE TABLE QingLong3PluginPackageWorkflowAdmissions (
  runKey INTEGER PRIMARY KEY REFERENCES RunIdentities (runKey) ON DELETE RESTRICT,
  planId TEXT NOT NULL UNIQUE CHECK (octet_length(planId) BETWEEN 1 AND 36), -- limits.portableIdBytesMax
  planDigest BLOB NOT NULL CHECK (length(planDigest) = 32),
  projectId TEXT NOT NULL CHECK (octet_length(projectId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  packageName TEXT NOT NULL CHECK (octet_length(packageName) BETWEEN 1 AND 63), -- limits.packageNameBytesMax
  installationId TEXT NOT NULL CHECK (octet_length(installationId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  lockDigest BLOB NOT NULL CHECK (length(lockDigest) = 32),
  generation INTEGER NOT NULL CHECK (generation BETWEEN 0 AND 2147483647), -- limits.counterMax
  generationDigest BLOB NOT NULL CHECK (length(generationDigest) = 32),
  materializedRevisionDigest BLOB NOT NULL CHECK (length(materializedRevisionDigest) = 32),
  publicationDigest BLOB NOT NULL CHECK (length(publicationDigest) = 32),
  workflowId TEXT NOT NULL CHECK (octet_length(workflowId) BETWEEN 1 AND 63), -- limits.resourceIdBytesMax
  workflowDefinitionDigest BLOB NOT NULL CHECK (length(workflowDefinitionDigest) = 32),
  stepCount INTEGER NOT NULL CHECK (stepCount BETWEEN 1 AND 128), -- limits.stepsMax
  plannedAtMs INTEGER NOT NULL CHECK (plannedAtMs BETWEEN 0 AND 9007199254740991),
  admittedAtMs INTEGER NOT NULL CHECK (admittedAtMs BETWEEN 0 AND 9007199254740991),
  finalRunVersion INTEGER NOT NULL CHECK (finalRunVersion = stepCount + 1),
  finalRunEventSequence INTEGER NOT NULL CHECK (finalRunEventSequence = finalRunVersion),
  historyDigest BLOB NOT NULL CHECK (length(historyDigest) = 32),
  receiptDigest BLOB NOT NULL CHECK (length(receiptDigest) = 32),
  plan TEXT NOT NULL CHECK (octet_length(plan) <= 262144) -- limits.planBytesMax
) STRICT;

-- Step runs, mutations and events are named by derived ids, so what is bound here is what those do not say. A row has
-- the key of its step in RunRecords. `needs` is a JSON list of step numbers; it also tells which running runs can move.
CREATE TABLE QingLong3PluginPackageWorkflowAdmissionSteps (
  recordKey INTEGER PRIMARY KEY,
  runKey INTEGER GENERATED ALWAYS AS (recordKey >> 8) VIRTUAL,
  number INTEGER GENERATED ALWAYS AS (recordKey & 255) VIRTUAL CHECK (number BETWEEN 1 AND 128), -- limits.stepsMax
  stepKey TEXT NOT NULL CHECK (octet_length(stepKey) BETWEEN 1 AND 63), -- limits.resourceIdBytesMax
  taskSourceDigest BLOB NOT NULL CHECK (length(taskSourceDigest) = 32),
  needs TEXT NOT NULL CHECK (json_valid(needs) AND octet_length(needs) <= 512), -- limits.stepNeedsBytesMax
  stepRunDigest BLOB NOT NULL CHECK (length(stepRunDigest) = 32)
) STRICT;

-- Plan ids and idempotency keys. Refers to no run row: it outlives pruning, until the key expires.
CREATE TABLE AdmissionKeys (
  planId TEXT NOT NULL PRIMARY KEY CHECK (octet_length(planId) BETWEEN 1 AND 36), -- limits.portableIdBytesMax
  projectId TEXT NOT NULL CHECK (octet_length(projectId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  idempotencyKey TEXT CHECK (octet_length(idempotencyKey) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  planDigest BLOB NOT NULL CHECK (length(planDigest) = 32),
  packageName TEXT NOT NULL CHECK (octet_length(packageName) BETWEEN 1 AND 63), -- limits.packageNameBytesMax
  workflowId TEXT NOT NULL CHECK (octet_length(workflowId) BETWEEN 1 AND 63), -- limits.resourceIdBytesMax
  runId TEXT NOT NULL CHECK (octet_length(runId) BETWEEN 1 AND 36), -- limits.portableIdBytesMax
  receiptDigest BLOB NOT NULL CHECK (length(receiptDigest) = 32),
  expiresAtMs INTEGER NOT NULL CHECK (expiresAtMs BETWEEN 0 AND 9007199254740991)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX IdempotencyKeys ON AdmissionKeys (projectId, idempotencyKey) WHERE idempotencyKey IS NOT NULL;

CREATE TRIGGER QingLong3PluginPackageWorkflowAdmissionsNeverChange
BEFORE UPDATE ON QingLong3PluginPackageWorkflowAdmissions
BEGIN
  SELECT RAISE(ABORT, 'QingLong3PluginPackageWorkflowAdmissions never change');
END;

CREATE TRIGGER QingLong3PluginPackageWorkflowAdmissionsStay
BEFORE DELETE ON QingLong3PluginPackageWorkflowAdmissions WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'QingLong3PluginPackageWorkflowAdmissions stay');
END;

CREATE TRIGGER QingLong3PluginPackageWorkflowAdmissionsGoAfterSteps
BEFORE DELETE ON QingLong3PluginPackageWorkflowAdmissions
WHEN EXISTS (
  SELECT 1 FROM QingLong3PluginPackageWorkflowAdmissionSteps
  WHERE recordKey BETWEEN old.runKey << 8 AND old.runKey << 8 | 255
)
BEGIN
  SELECT RAISE(ABORT, 'QingLong3PluginPackageWorkflowAdmissions go after their steps');
END;

CREATE TRIGGER QingLong3PluginPackageWorkflowAdmissionStepsNeverChange
BEFORE UPDATE ON QingLong3PluginPackageWorkflowAdmissionSteps
BEGIN
  SELECT RAISE(ABORT, 'QingLong3PluginPackageWorkflowAdmissionSteps never change');
END;

CREATE TRIGGER QingLong3PluginPackageWorkflowAdmissionStepsStay
BEFORE DELETE ON QingLong3PluginPackageWorkflowAdmissionSteps WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'QingLong3PluginPackageWorkflowAdmissionSteps stay');
END;

-- For people. What a step is stands in the ledger above, how it stands in RunRecords.
CREATE VIEW StepRuns AS
SELECT
  i.runId, r.number, l.stepKey, lower(hex(l.taskSourceDigest)) AS taskSourceDigest, l.needs, r.status, r.version,
  r.attemptCount, r.readyAtMs, r.dueStartMs, r.dueStartUptimeMs, r.dueBootId, r.dueLengthMs, r.startedAtMs,
  r.finishedAtMs, r.resultCode, r.errorSummary, r.inputRef, r.outputRef, r.updatedAtMs, lower(hex(r.digest)) AS digest
FROM RunRecords AS r
JOIN RunIdentities AS i ON i.runKey = r.runKey
JOIN QingLong3PluginPackageWorkflowAdmissionSteps AS l ON l.recordKey = r.recordKey
ORDER BY r.recordKey;
