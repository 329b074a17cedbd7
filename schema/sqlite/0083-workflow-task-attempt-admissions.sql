-- Attempts, in the order of commits; an attempt is admitted in one epoch of one step, and its row is the ledger entry
-- of that admission. A step leads to its latest attempt, each attempt to the one before it of its step: no index is
-- written, and the attempts that many runs begin at the same time share their pages.
CREATE TABLE RunAttempts (
  attemptKey INTEGER PRIMARY KEY,
  previousKey INTEGER,
  runKey INTEGER NOT NULL,
  number INTEGER NOT NULL CHECK (number BETWEEN 1 AND 2147483647), -- limits.counterMax
  stepNumber INTEGER NOT NULL CHECK (stepNumber BETWEEN 1 AND 128), -- limits.stepsMax
  stepRunVersion INTEGER NOT NULL CHECK (stepRunVersion BETWEEN 1 AND 2147483647), -- limits.counterMax
  status TEXT NOT NULL CHECK (
    status IN ('claimed', 'starting', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'lost')
  ),
  executorType TEXT NOT NULL CHECK (executorType IN ('process', 'handler')),
  executionDigest BLOB NOT NULL CHECK (length(executionDigest) = 32),
  claimedAtMs INTEGER NOT NULL CHECK (claimedAtMs BETWEEN 0 AND 9007199254740991),
  startedAtMs INTEGER CHECK (startedAtMs BETWEEN 0 AND 9007199254740991),
  finishedAtMs INTEGER CHECK (finishedAtMs BETWEEN 0 AND 9007199254740991),
  bootId TEXT CHECK (octet_length(bootId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  -- A deadline begins in the boot that the attempt began in; only another boot id is written out.
  deadlineStartMs INTEGER CHECK (deadlineStartMs BETWEEN 0 AND 9007199254740991),
  deadlineStartUptimeMs INTEGER CHECK (deadlineStartUptimeMs BETWEEN 0 AND 9007199254740991),
  deadlineBootId TEXT CHECK (octet_length(deadlineBootId) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  deadlineLengthMs INTEGER CHECK (deadlineLengthMs BETWEEN 0 AND 2147483647), -- limits.durationMsMax
  stopReason TEXT CHECK (stopReason IN ('timeout', 'shutdown')),
  exitCode INTEGER CHECK (exitCode BETWEEN 0 AND 255), -- limits.exitCodeMax
  signal TEXT CHECK (octet_length(signal) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  outputBytes INTEGER CHECK (outputBytes BETWEEN 0 AND 9007199254740991),
  outputTruncated INTEGER CHECK (outputTruncated IN (0, 1)),
  durationMs INTEGER CHECK (durationMs BETWEEN 0 AND 9007199254740991),
  errorCode TEXT CHECK (octet_length(errorCode) BETWEEN 1 AND 128), -- limits.identifierBytesMax
  errorSummary TEXT CHECK (octet_length(errorSummary) <= 2048), -- limits.errorSummaryBytesMax
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  -- The start barrier sets both; what ended without it never ran.
  CHECK ((bootId IS NULL) = (startedAtMs IS NULL)),
  CHECK (startedAtMs IS NOT NULL OR status IN ('claimed', 'cancelled', 'timed_out', 'lost')),
  CHECK ((finishedAtMs IS NOT NULL) = (status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost'))),
  CHECK ((deadlineStartUptimeMs IS NULL) = (deadlineStartMs IS NULL)),
  CHECK ((deadlineLengthMs IS NULL) = (deadlineStartMs IS NULL)),
  CHECK (deadlineBootId IS NULL OR (deadlineStartMs IS NOT NULL AND deadlineBootId <> bootId))
) STRICT;

ALTER TABLE RunRecords ADD COLUMN lastAttemptKey INTEGER CHECK (lastAttemptKey IS NULL OR number > 0);

CREATE TRIGGER RunRecordsGoAfterAttempts BEFORE DELETE ON RunRecords
WHEN EXISTS (SELECT 1 FROM RunAttempts WHERE attemptKey = old.lastAttemptKey AND runKey = old.recordKey >> 8)
BEGIN
  SELECT RAISE(ABORT, 'RunRecords go after RunAttempts');
END;
