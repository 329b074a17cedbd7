// Bounds of this adapter. Apart from core/limits.ts, because that table is in the edge bundle, which has no byte of
// PostgreSQL.
export const bounds = {
  // Sessions cost the server a process each; commits of one group share a sync whichever sessions they come from.
  connectionsDefault: 4,
  connectionsMax: 32,

  // Transactions of several runs at once, of each kind: while one waits for the disk, the next one is decided.
  groupsMax: 2,
  // Runs in one of them: records of a few KiB each, all held in memory at once.
  groupMax: 32,
  // Characters of admissions in one of them; one with 64 large steps has more by itself.
  groupLengthMax: 1_048_576,

  // Reads that are sent at once: pages and runs, whose answers are all held in memory.
  looksMax: 32,

  connectMsMax: 5_000,
  // A statement of ours touches one run or one page; what takes longer is stuck.
  statementMsMax: 10_000,
  // Rows are locked for a few round trips.
  lockMsMax: 2_000,
  // A client that lives sends its next statement within a round trip.
  idleInTransactionMsMax: 10_000,
  // Longer than the server takes to give up by itself: only a peer that is gone without a word is met by this.
  answerMsMax: 15_000,

  // Tries of one operation without a pause; then one after each pause, until limits.turnRetryMsMax is over.
  triesMax: 3,
  retryPauseMsMin: 20,
  retryPauseMsMax: 500,
} as const;
