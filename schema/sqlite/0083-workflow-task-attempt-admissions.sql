-- Attempts: the columns of RunRecords that only kind 2 has. An attempt is admitted in one epoch of one step; its row is
-- the ledger entry of that admission.
ALTER TABLE RunRecords ADD COLUMN stepNumber INTEGER
  CHECK ((stepNumber IS NOT NULL) = (kind = 2) AND stepNumber BETWEEN 1 AND 128); -- limits.stepsMax
ALTER TABLE RunRecords ADD COLUMN stepRunVersion INTEGER
  CHECK ((stepRunVersion IS NOT NULL) = (kind = 2) AND stepRunVersion BETWEEN 1 AND 2147483647); -- limits.counterMax
ALTER TABLE RunRecords ADD COLUMN executorType TEXT
  CHECK ((executorType IS NOT NULL) = (kind = 2) AND executorType IN ('process', 'handler'));
ALTER TABLE RunRecords ADD COLUMN executionDigest BLOB
  CHECK ((executionDigest IS NOT NULL) = (kind = 2) AND length(executionDigest) = 32);
ALTER TABLE RunRecords ADD COLUMN claimedAtMs INTEGER
  CHECK ((claimedAtMs IS NOT NULL) = (kind = 2) AND claimedAtMs BETWEEN 0 AND 9007199254740991);
-- Present from the start barrier on.
ALTER TABLE RunRecords ADD COLUMN bootId TEXT
  CHECK (
    (bootId IS NOT NULL) = (kind = 2 AND startedAtMs IS NOT NULL)
      AND octet_length(bootId) BETWEEN 1 AND 128 -- limits.identifierBytesMax
      AND bootId <> spanBootId
  );
ALTER TABLE RunRecords ADD COLUMN stopReason TEXT
  CHECK (stopReason IS NULL OR (kind = 2 AND stopReason IN ('timeout', 'shutdown')));
ALTER TABLE RunRecords ADD COLUMN exitCode INTEGER
  CHECK (exitCode IS NULL OR (kind = 2 AND exitCode BETWEEN 0 AND 255)); -- limits.exitCodeMax
ALTER TABLE RunRecords ADD COLUMN signal TEXT
  CHECK (signal IS NULL OR (kind = 2 AND octet_length(signal) BETWEEN 1 AND 128)); -- limits.identifierBytesMax
ALTER TABLE RunRecords ADD COLUMN outputBytes INTEGER
  CHECK (outputBytes IS NULL OR (kind = 2 AND outputBytes BETWEEN 0 AND 9007199254740991));
ALTER TABLE RunRecords ADD COLUMN outputTruncated INTEGER
  CHECK (outputTruncated IS NULL OR (kind = 2 AND outputTruncated IN (0, 1)));

CREATE VIEW RunAttempts AS
SELECT
  i.runId, r.number, r.stepNumber, l.stepKey, r.stepRunVersion, r.status, r.executorType,
  lower(hex(r.executionDigest)) AS executionDigest, r.spanStartMs AS deadlineStartMs,
  r.spanStartUptimeMs AS deadlineStartUptimeMs,
  CASE WHEN r.spanStartMs IS NOT NULL THEN coalesce(r.spanBootId, r.bootId) END AS deadlineBootId,
  r.spanLengthMs AS deadlineLengthMs, r.bootId, r.stopReason, r.claimedAtMs, r.startedAtMs, r.finishedAtMs, r.exitCode,
  r.signal, r.outputBytes, r.outputTruncated, r.errorCode, r.errorSummary, lower(hex(r.digest)) AS digest
FROM RunRecords AS r
JOIN RunIdentities AS i ON i.runKey = r.runKey
JOIN QingLong3PluginPackageWorkflowAdmissionSteps AS l ON l.runKey = r.runKey AND l.number = r.stepNumber
WHERE r.kind = 2;
