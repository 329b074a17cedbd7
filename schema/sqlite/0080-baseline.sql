-- Runs, steps and their history; packages and what makes them startable; the tables that describe the store itself.
--
-- Bytes written decide the layout. What a commit writes lies together: a run and its steps side by side, attempts and
-- history in the order of commits. Hot tables are keyed by one integer, because only such a b-tree grows at its end
-- without rewriting its neighbours, and nothing on them is indexed but what is rare. (Measured for a chain of 8 steps,
-- its admission included, in KiB a step, WAL / rollback journal: 15 / 38, and 5 / 9 with 32 chains at once; with keys
-- of several columns, attempts beside their steps and an index on the history 22 / 54 and 11 / 17.) Derived ids are
-- functions of a key and are not stored; the static part of a step stands in its plan. A bound names its constant.

-- Retention puts its one row in here and takes it out again in the same transaction: only meanwhile may rows of the
-- append-only tables be deleted. Nothing may ever change them.
CREATE TABLE RetentionGate (
  gateId INTEGER PRIMARY KEY CHECK (gateId = 1)
) STRICT;

CREATE TABLE Migrations (
  id TEXT NOT NULL PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  sha256 TEXT NOT NULL CHECK (length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*'),
  appliedAtMs INTEGER NOT NULL CHECK (appliedAtMs BETWEEN 0 AND 9007199254740991)
) STRICT, WITHOUT ROWID;

CREATE TABLE Capabilities (
  name TEXT NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 2147483647), -- limits.counterMax
  features TEXT NOT NULL CHECK (json_valid(features))
) STRICT, WITHOUT ROWID;

INSERT INTO Capabilities (name, version, features) VALUES ('local-control-core', 40, '{}');

-- What a run is from its first event on. Everything that changes is in RunRecords.
CREATE TABLE RunIdentities (
  runKey INTEGER PRIMARY KEY,
  runId TEXT NOT NULL UNIQUE CHECK (octet_length(runId) BETWEEN 1 AND 36), -- limits.portableIdBytesMax
  projectId TEXT NOT NULL CHECK (octet_length(projectId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  planId TEXT NOT NULL CHECK (octet_length(planId) BETWEEN 1 AND 36), -- limits.portableIdBytesMax
  workflowId TEXT NOT NULL CHECK (octet_length(workflowId) BETWEEN 1 AND 63), -- limits.resourceIdBytesMax
  publicationDigest BLOB NOT NULL CHECK (length(publicationDigest) = 32),
  packageName TEXT NOT NULL CHECK (octet_length(packageName) BETWEEN 1 AND 63), -- limits.packageNameBytesMax
  generation INTEGER NOT NULL CHECK (generation BETWEEN 0 AND 2147483647), -- limits.counterMax
  triggerType TEXT NOT NULL CHECK (triggerType = 'plugin_package_workflow'),
  triggerId TEXT CHECK (octet_length(triggerId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  scheduledForMs INTEGER CHECK (scheduledForMs BETWEEN 0 AND 9007199254740991),
  requestedBy TEXT NOT NULL CHECK (octet_length(requestedBy) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  idempotencyKey TEXT CHECK (octet_length(idempotencyKey) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  retryOfRunId TEXT CHECK (octet_length(retryOfRunId) BETWEEN 1 AND 36), -- limits.portableIdBytesMax
  deadlineStartMs INTEGER CHECK (deadlineStartMs BETWEEN 0 AND 9007199254740991),
  deadlineStartUptimeMs INTEGER CHECK (deadlineStartUptimeMs BETWEEN 0 AND 9007199254740991),
  deadlineBootId TEXT CHECK (octet_length(deadlineBootId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  deadlineLengthMs INTEGER CHECK (deadlineLengthMs BETWEEN 0 AND 2147483647), -- limits.durationMsMax
  CHECK ((deadlineStartUptimeMs IS NULL) = (deadlineStartMs IS NULL)),
  CHECK ((deadlineBootId IS NULL) = (deadlineStartMs IS NULL)),
  CHECK ((deadlineLengthMs IS NULL) = (deadlineStartMs IS NULL))
) STRICT;

-- Few runs are retries; those that are not are in no index but that of their ids.
CREATE INDEX Retries ON RunIdentities (retryOfRunId) WHERE retryOfRunId IS NOT NULL;

-- The present state of a run (number 0) and of its steps (numbered from 1 in the order of their keys): exactly what
-- folding the run's events yields, each row with its digest. Attempts have a table of their own.
CREATE TABLE RunRecords (
  recordKey INTEGER PRIMARY KEY,
  runKey INTEGER GENERATED ALWAYS AS (recordKey >> 8) VIRTUAL,
  number INTEGER GENERATED ALWAYS AS (recordKey & 255) VIRTUAL CHECK (number BETWEEN 0 AND 128), -- limits.stepsMax
  status TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 2147483647), -- limits.counterMax
  updatedAtMs INTEGER NOT NULL CHECK (updatedAtMs BETWEEN 0 AND 9007199254740991),
  startedAtMs INTEGER CHECK (startedAtMs BETWEEN 0 AND 9007199254740991),
  finishedAtMs INTEGER CHECK (finishedAtMs BETWEEN 0 AND 9007199254740991),
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  errorSummary TEXT CHECK (octet_length(errorSummary) <= 2048), -- limits.errorSummaryBytesMax
  -- Of runs. `lastEventKey` is where the run's history is read from, backwards.
  createdAtMs INTEGER CHECK (createdAtMs BETWEEN 0 AND 9007199254740991),
  planDigest BLOB CHECK (length(planDigest) = 32),
  historyDigest BLOB CHECK (length(historyDigest) = 32),
  lastEventKey INTEGER,
  cancelRequestedAtMs INTEGER CHECK (cancelRequestedAtMs BETWEEN 0 AND 9007199254740991),
  cancelReason TEXT CHECK (cancelReason IN ('user', 'policy', 'shutdown', 'reconcile', 'timeout')),
  errorCode TEXT CHECK (octet_length(errorCode) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  -- Of steps. The four columns of `due` are all there or all absent.
  attemptCount INTEGER CHECK (attemptCount BETWEEN 0 AND 64), -- limits.attemptsPerStepMax
  readyAtMs INTEGER CHECK (readyAtMs BETWEEN 0 AND 9007199254740991),
  dueStartMs INTEGER CHECK (dueStartMs BETWEEN 0 AND 9007199254740991),
  dueStartUptimeMs INTEGER CHECK (dueStartUptimeMs BETWEEN 0 AND 9007199254740991),
  dueBootId TEXT CHECK (octet_length(dueBootId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  dueLengthMs INTEGER CHECK (dueLengthMs BETWEEN 0 AND 2147483647), -- limits.durationMsMax
  resultCode TEXT CHECK (octet_length(resultCode) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  inputRef TEXT CHECK (octet_length(inputRef) BETWEEN 1 AND 1024), -- limits.filePathBytesMax
  outputRef TEXT CHECK (octet_length(outputRef) BETWEEN 1 AND 1024), -- limits.filePathBytesMax
  CHECK (number > 0 OR status IN ('running', 'succeeded', 'failed', 'cancelled', 'timed_out')),
  CHECK (
    number = 0 OR status IN (
      'pending', 'ready', 'waiting_approval', 'running', 'lost', 'succeeded', 'failed', 'skipped', 'cancelled',
      'timed_out'
    )
  ),
  CHECK (startedAtMs IS NOT NULL OR number > 0),
  CHECK ((finishedAtMs IS NOT NULL) = (status IN ('succeeded', 'failed', 'skipped', 'cancelled', 'timed_out'))),
  CHECK ((createdAtMs IS NOT NULL) = (number = 0)),
  CHECK ((planDigest IS NOT NULL) = (number = 0)),
  CHECK ((historyDigest IS NOT NULL) = (number = 0)),
  CHECK ((lastEventKey IS NOT NULL) = (number = 0)),
  CHECK (cancelRequestedAtMs IS NULL OR number = 0),
  CHECK ((cancelReason IS NULL) = (cancelRequestedAtMs IS NULL)),
  CHECK (errorCode IS NULL OR number = 0),
  CHECK ((attemptCount IS NOT NULL) = (number > 0)),
  CHECK (readyAtMs IS NULL OR number > 0),
  CHECK (dueStartMs IS NULL OR number > 0),
  CHECK ((dueStartUptimeMs IS NULL) = (dueStartMs IS NULL)),
  CHECK ((dueBootId IS NULL) = (dueStartMs IS NULL)),
  CHECK ((dueLengthMs IS NULL) = (dueStartMs IS NULL)),
  CHECK (
    (resultCode IS NOT NULL)
      = (number > 0 AND status IN ('failed', 'skipped', 'cancelled', 'timed_out', 'lost'))
  ),
  CHECK (inputRef IS NULL OR number > 0),
  CHECK (outputRef IS NULL OR number > 0)
) STRICT;

-- Whatever looks for work reads this and never the finished runs. A status that is damaged is no end. Statements that
-- leave a status as it is do not name it, so that SQLite does not touch this index.
CREATE INDEX UnendedRuns ON RunRecords (createdAtMs, planDigest)
  WHERE number = 0 AND status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out');

-- Runs that ended badly are few, and are what an operator looks for.
CREATE INDEX FailedRuns ON RunRecords (status) WHERE number = 0 AND status IN ('failed', 'cancelled', 'timed_out');

-- The truth: one append-only fact a row, in the order of commits. Each names the one before it in its run, and every
-- 32nd of a run can be found at once, so that a page of a history costs its own length and no more. `type` and
-- `actorType` are codes, see RunHistory. A step is meant by its number, an attempt by the step and the epoch that it
-- was admitted in. `payload` is canonical JSON without nulls; that of step.created is a function of the plan.
CREATE TABLE RunEvents (
  eventKey INTEGER PRIMARY KEY,
  previousKey INTEGER,
  runKey INTEGER NOT NULL,
  sequence INTEGER NOT NULL CHECK (sequence BETWEEN 1 AND 2147483647), -- limits.counterMax
  type INTEGER NOT NULL CHECK (type BETWEEN 0 AND 24),
  actorType INTEGER NOT NULL CHECK (actorType BETWEEN 0 AND 2),
  actorId TEXT CHECK (octet_length(actorId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  stepNumber INTEGER CHECK (stepNumber BETWEEN 1 AND 128), -- limits.stepsMax
  attemptEpoch INTEGER CHECK (attemptEpoch BETWEEN 1 AND 2147483647), -- limits.counterMax
  createdAtMs INTEGER NOT NULL CHECK (createdAtMs BETWEEN 0 AND 9007199254740991),
  payload TEXT CHECK (octet_length(payload) <= 16384), -- limits.eventPayloadBytesMax
  CHECK ((previousKey IS NULL) = (sequence = 1)),
  CHECK (attemptEpoch IS NULL OR stepNumber IS NOT NULL),
  CHECK (type <> 1 OR payload IS NULL)
) STRICT;

CREATE UNIQUE INDEX RunEventAnchors ON RunEvents (runKey, sequence) WHERE sequence & 31 = 0;

CREATE TRIGGER RunIdentitiesNeverChange BEFORE UPDATE ON RunIdentities
BEGIN
  SELECT RAISE(ABORT, 'RunIdentities never change');
END;

CREATE TRIGGER RunIdentitiesStay BEFORE DELETE ON RunIdentities WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'RunIdentities stay');
END;

-- A run goes from its end to its beginning: no row stays behind that nothing leads to.
CREATE TRIGGER RunIdentitiesGoLast BEFORE DELETE ON RunIdentities
WHEN EXISTS (SELECT 1 FROM RunRecords WHERE recordKey BETWEEN old.runKey << 8 AND old.runKey << 8 | 255)
BEGIN
  SELECT RAISE(ABORT, 'RunIdentities go after RunRecords');
END;

CREATE TRIGGER RunRecordsGoAfterEvents BEFORE DELETE ON RunRecords
WHEN EXISTS (SELECT 1 FROM RunEvents WHERE eventKey = old.lastEventKey AND runKey = old.recordKey >> 8)
BEGIN
  SELECT RAISE(ABORT, 'RunRecords go after RunEvents');
END;

CREATE TRIGGER RunEventsNeverChange BEFORE UPDATE ON RunEvents
BEGIN
  SELECT RAISE(ABORT, 'RunEvents never change');
END;

CREATE TRIGGER RunEventsStay BEFORE DELETE ON RunEvents WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'RunEvents stay');
END;

-- Runs whose evidence was found damaged. Outside the fold, by id: the run's own rows are not to be believed.
CREATE TABLE SetAside (
  runId TEXT NOT NULL PRIMARY KEY CHECK (octet_length(runId) BETWEEN 1 AND 36), -- limits.portableIdBytesMax
  code TEXT NOT NULL CHECK (octet_length(code) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  summary TEXT NOT NULL CHECK (octet_length(summary) <= 2048), -- limits.errorSummaryBytesMax
  atMs INTEGER NOT NULL CHECK (atMs BETWEEN 0 AND 9007199254740991)
) STRICT, WITHOUT ROWID;

-- Packages. `generationDigest` vouches for what an installation is; only its state moves.
CREATE TABLE PackageInstallations (
  installationId TEXT NOT NULL PRIMARY KEY
    CHECK (octet_length(installationId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  projectId TEXT NOT NULL CHECK (octet_length(projectId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  packageName TEXT NOT NULL CHECK (octet_length(packageName) BETWEEN 1 AND 63), -- limits.packageNameBytesMax
  generation INTEGER NOT NULL CHECK (generation BETWEEN 0 AND 2147483647), -- limits.counterMax
  lockDigest BLOB NOT NULL CHECK (length(lockDigest) = 32),
  generationDigest BLOB NOT NULL CHECK (length(generationDigest) = 32),
  materializedRevisionDigest BLOB NOT NULL CHECK (length(materializedRevisionDigest) = 32),
  version TEXT NOT NULL CHECK (octet_length(version) BETWEEN 1 AND 64), -- limits.versionBytesMax
  state TEXT NOT NULL CHECK (state IN ('staged', 'active', 'superseded', 'failed', 'removed')),
  publisherKeyId TEXT REFERENCES Publishers (keyId) ON DELETE RESTRICT,
  signature BLOB CHECK (length(signature) = 64),
  installedAtMs INTEGER NOT NULL CHECK (installedAtMs BETWEEN 0 AND 9007199254740991),
  UNIQUE (projectId, packageName, generation),
  CHECK ((signature IS NULL) = (publisherKeyId IS NULL))
) STRICT;

CREATE TABLE PackageInstallationHeads (
  projectId TEXT NOT NULL,
  packageName TEXT NOT NULL,
  installationId TEXT NOT NULL REFERENCES PackageInstallations (installationId) ON DELETE RESTRICT,
  PRIMARY KEY (projectId, packageName)
) STRICT, WITHOUT ROWID;

-- Named by its own digest: two projects, or an uninstalled and again installed package, share a row.
CREATE TABLE MaterializedRevisions (
  revisionDigest BLOB NOT NULL PRIMARY KEY CHECK (length(revisionDigest) = 32),
  revision TEXT NOT NULL CHECK (octet_length(revision) <= 4194304) -- limits.revisionBytesMax
) STRICT;

-- Every file of a package with its mode, size and digest, as JSON: what the lock digest is the digest of.
CREATE TABLE PackageFiles (
  lockDigest BLOB NOT NULL PRIMARY KEY CHECK (length(lockDigest) = 32),
  files TEXT NOT NULL CHECK (octet_length(files) <= 8388608) -- limits.packageFilesBytesMax
) STRICT;

-- The digest chain that alone makes workflows startable, and its one head.
CREATE TABLE AutomationPublications (
  projectId TEXT NOT NULL,
  packageName TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version BETWEEN 1 AND 2147483647), -- limits.counterMax
  state TEXT NOT NULL CHECK (state IN ('active', 'withdrawn', 'absent')),
  installationId TEXT NOT NULL,
  generation INTEGER NOT NULL CHECK (generation BETWEEN 0 AND 2147483647), -- limits.counterMax
  lockDigest BLOB NOT NULL CHECK (length(lockDigest) = 32),
  generationDigest BLOB NOT NULL CHECK (length(generationDigest) = 32),
  materializedRevisionDigest BLOB NOT NULL CHECK (length(materializedRevisionDigest) = 32),
  previousPublicationDigest BLOB CHECK (length(previousPublicationDigest) = 32),
  lifecycleEventDigest BLOB CHECK (length(lifecycleEventDigest) = 32),
  workflows TEXT NOT NULL CHECK (octet_length(workflows) <= 32768), -- limits.publicationBytesMax
  publishedAtMs INTEGER NOT NULL CHECK (publishedAtMs BETWEEN 0 AND 9007199254740991),
  publicationDigest BLOB NOT NULL CHECK (length(publicationDigest) = 32),
  PRIMARY KEY (projectId, packageName, version),
  CHECK ((previousPublicationDigest IS NULL) = (version = 1))
) STRICT;

CREATE TABLE AutomationPublicationHeads (
  projectId TEXT NOT NULL,
  packageName TEXT NOT NULL,
  version INTEGER NOT NULL,
  publicationDigest BLOB NOT NULL CHECK (length(publicationDigest) = 32),
  PRIMARY KEY (projectId, packageName),
  FOREIGN KEY (projectId, packageName, version)
    REFERENCES AutomationPublications (projectId, packageName, version) ON DELETE RESTRICT
) STRICT, WITHOUT ROWID;

-- The state of an installation's lifecycle is that of its last event.
CREATE TABLE PackageLifecycleEvents (
  installationId TEXT NOT NULL REFERENCES PackageInstallations (installationId) ON DELETE RESTRICT,
  sequence INTEGER NOT NULL CHECK (sequence BETWEEN 1 AND 2147483647), -- limits.counterMax
  projectId TEXT NOT NULL,
  packageName TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'disabled', 'uninstalled')),
  reason TEXT CHECK (octet_length(reason) <= 2048), -- limits.errorSummaryBytesMax
  atMs INTEGER NOT NULL CHECK (atMs BETWEEN 0 AND 9007199254740991),
  lifecycleEventDigest BLOB NOT NULL CHECK (length(lifecycleEventDigest) = 32),
  PRIMARY KEY (installationId, sequence)
) STRICT, WITHOUT ROWID;

-- Permanent: nothing lifts one. The lock stands before the installation, because an install asks by lock alone.
CREATE TABLE PackageQuarantines (
  projectId TEXT NOT NULL CHECK (octet_length(projectId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  packageName TEXT NOT NULL CHECK (octet_length(packageName) BETWEEN 1 AND 63), -- limits.packageNameBytesMax
  lockDigest BLOB NOT NULL CHECK (length(lockDigest) = 32),
  installationId TEXT NOT NULL CHECK (octet_length(installationId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  reason TEXT NOT NULL CHECK (octet_length(reason) <= 2048), -- limits.errorSummaryBytesMax
  atMs INTEGER NOT NULL CHECK (atMs BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (projectId, packageName, lockDigest, installationId)
) STRICT, WITHOUT ROWID;

-- Keys that may sign packages. A revocation is this one fact: admission, start barriers and installs read it for
-- everything that the key has signed, and nothing takes it back.
CREATE TABLE Publishers (
  keyId TEXT NOT NULL PRIMARY KEY CHECK (octet_length(keyId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  publicKey BLOB NOT NULL CHECK (length(publicKey) = 32),
  addedAtMs INTEGER NOT NULL CHECK (addedAtMs BETWEEN 0 AND 9007199254740991),
  revokedAtMs INTEGER CHECK (revokedAtMs BETWEEN 0 AND 9007199254740991),
  revokeReason TEXT CHECK (octet_length(revokeReason) <= 2048), -- limits.errorSummaryBytesMax
  CHECK ((revokeReason IS NULL) = (revokedAtMs IS NULL))
) STRICT, WITHOUT ROWID;

-- What this device gives to the commands of a package of this name, through upgrades and uninstalling. A value may be a
-- password: `salt`, drawn anew with each, hides it in the digest that an attempt carries.
CREATE TABLE PackageSettings (
  projectId TEXT NOT NULL CHECK (octet_length(projectId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  packageName TEXT NOT NULL CHECK (octet_length(packageName) BETWEEN 1 AND 63), -- limits.packageNameBytesMax
  name TEXT NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 63), -- limits.settingNameBytesMax
  value TEXT NOT NULL CHECK (octet_length(value) <= 131071), -- limits.argumentBytesMax
  salt BLOB NOT NULL CHECK (length(salt) = 16), -- limits.settingSaltBytes
  updatedAtMs INTEGER NOT NULL CHECK (updatedAtMs BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (projectId, packageName, name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER MaterializedRevisionsNeverChange BEFORE UPDATE ON MaterializedRevisions
BEGIN
  SELECT RAISE(ABORT, 'MaterializedRevisions never change');
END;

CREATE TRIGGER PackageFilesNeverChange BEFORE UPDATE ON PackageFiles
BEGIN
  SELECT RAISE(ABORT, 'PackageFiles never change');
END;

CREATE TRIGGER PackageFilesStay BEFORE DELETE ON PackageFiles WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'PackageFiles stay');
END;

CREATE TRIGGER PublishersChangeOnce BEFORE UPDATE ON Publishers
WHEN old.revokedAtMs IS NOT NULL OR new.keyId <> old.keyId OR new.publicKey <> old.publicKey
  OR new.addedAtMs <> old.addedAtMs
BEGIN
  SELECT RAISE(ABORT, 'Publishers change once, when they are revoked');
END;

CREATE TRIGGER PublishersStay BEFORE DELETE ON Publishers
BEGIN
  SELECT RAISE(ABORT, 'Publishers stay');
END;

CREATE TRIGGER MaterializedRevisionsStay BEFORE DELETE ON MaterializedRevisions
WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'MaterializedRevisions stay');
END;

CREATE TRIGGER AutomationPublicationsNeverChange BEFORE UPDATE ON AutomationPublications
BEGIN
  SELECT RAISE(ABORT, 'AutomationPublications never change');
END;

CREATE TRIGGER AutomationPublicationsStay BEFORE DELETE ON AutomationPublications
WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'AutomationPublications stay');
END;

CREATE TRIGGER PackageLifecycleEventsNeverChange BEFORE UPDATE ON PackageLifecycleEvents
BEGIN
  SELECT RAISE(ABORT, 'PackageLifecycleEvents never change');
END;

CREATE TRIGGER PackageLifecycleEventsStay BEFORE DELETE ON PackageLifecycleEvents
WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'PackageLifecycleEvents stay');
END;

CREATE TRIGGER PackageQuarantinesNeverChange BEFORE UPDATE ON PackageQuarantines
BEGIN
  SELECT RAISE(ABORT, 'PackageQuarantines never change');
END;

CREATE TRIGGER PackageQuarantinesStay BEFORE DELETE ON PackageQuarantines
WHEN NOT EXISTS (SELECT 1 FROM RetentionGate)
BEGIN
  SELECT RAISE(ABORT, 'PackageQuarantines stay');
END;

-- For people: the names of the design over the compact tables.
CREATE VIEW Runs AS
SELECT
  i.runId AS id, i.projectId, i.planId, lower(hex(r.planDigest)) AS planDigest, i.workflowId,
  lower(hex(i.publicationDigest)) AS publicationDigest, i.packageName, i.generation, i.triggerType, i.triggerId,
  i.scheduledForMs, i.requestedBy, i.idempotencyKey, r.status, r.version, r.version AS eventSequence, r.createdAtMs,
  r.startedAtMs, r.updatedAtMs, r.finishedAtMs, i.deadlineStartMs, i.deadlineStartUptimeMs, i.deadlineBootId,
  i.deadlineLengthMs, r.cancelRequestedAtMs, r.cancelReason, i.retryOfRunId, r.errorCode, r.errorSummary,
  lower(hex(r.historyDigest)) AS historyDigest, lower(hex(r.digest)) AS digest
FROM RunIdentities AS i
JOIN RunRecords AS r ON r.recordKey = i.runKey << 8;

CREATE VIEW RunHistory AS
SELECT
  i.runId, e.sequence,
  json_extract(
    '["workflow.admitted","step.created","step.readied","step.skipped","step.failed","step.cancelled",
      "step.timed_out","attempt.claimed","attempt.started","attempt.observed","attempt.succeeded","attempt.failed",
      "attempt.cancelled","attempt.timed_out","attempt.lost","workflow.task_timeout_requested",
      "workflow.attempt_stop_requested","workflow.cancel_requested","workflow.succeeded","workflow.failed",
      "workflow.cancelled","workflow.timed_out","workflow.leftover_found","workflow.stop_forced",
      "workflow.late_receipt_found"]',
    '$[' || e.type || ']'
  ) AS type,
  json_extract('["runtime","operator","executor"]', '$[' || e.actorType || ']') AS actorType,
  e.actorId, e.stepNumber, e.attemptEpoch, e.payload, e.createdAtMs
FROM RunEvents AS e
JOIN RunIdentities AS i ON i.runKey = e.runKey
ORDER BY i.runKey, e.sequence;
