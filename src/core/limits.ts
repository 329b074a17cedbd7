// Every bound of the product, with its unit and its reason. Checked where data enters, and again by CHECKs in the
// database; the two are held together by a test.

const KIB = 1024;
const MIB = 1024 * KIB;

export const limits = {
  // Lexical classes, in bytes. 36 holds a UUID and is what both databases and file names share.
  identifierBytesMax: 128,
  portableIdBytesMax: 36,
  resourceIdBytesMax: 63,
  packageNameBytesMax: 63,
  titleCharactersMax: 200,
  versionBytesMax: 64,

  // Counters are 32-bit signed, so that both databases and every codec hold them exactly.
  counterMax: 2 ** 31 - 1,

  // A workflow must fit one admission transaction and one frontier computation of a few milliseconds.
  stepsMax: 128,
  workflowsMax: 128,
  tasksMax: 512,

  // Records, in UTF-8 bytes of their canonical form: what one read may bring into memory.
  planBytesMax: 256 * KIB,
  receiptBytesMax: 256 * KIB,
  stepRunBytesMax: 16 * KIB,
  eventPayloadBytesMax: 16 * KIB,
  errorSummaryBytesMax: 2 * KIB,
  manifestBytesMax: 1 * MIB,
  // The format is six levels deep; a parser recurses. Nodes are counted with every alias followed.
  manifestDepthMax: 32,
  manifestNodesMax: 200_000,
  // Of a manifest in YAML, as they stand in the text: of each the library makes 1.5 KiB in memory, so 60 MiB of all. A
  // thousand tasks; whoever has more writes JSON, which costs a tenth.
  yamlNodesMax: 40_000,
  // What a person reads at one sitting; the others are counted.
  mistakesMax: 100,
  revisionBytesMax: 4 * MIB,
  // 128 workflows with a definition digest each: at most 167 bytes an entry.
  publicationBytesMax: 32 * KIB,
  // The numbers of at most 127 other steps.
  stepNeedsBytesMax: 512,

  // Package directories: a package is scripts, not an image. File names must fit ext4, UBIFS and JFFS2.
  packageFilesMax: 4096,
  packageBytesMax: 64 * MIB,
  // The list of a package's files, canonical: 4096 paths of 1 KiB and 140 bytes beside each.
  packageFilesBytesMax: 8 * MIB,
  fileNameBytesMax: 255,
  filePathBytesMax: 1024,
  // Archives of packages, unpacked: the files, a header and padding for each, what extended headers say of them.
  archiveBytesMax: 96 * MIB,
  archiveHeadersMax: 16_384,
  archiveHeaderBytesMax: 256 * KIB,
  // JSON with a key and a signature: 200 bytes.
  signatureFileBytesMax: 4 * KIB,
  // A PEM or a text of one key.
  keyFileBytesMax: 16 * KIB,
  // What a copy of package files leaves free, so that the database can record it.
  freeBytesMin: 1 * MIB,

  // One page of work between two looks at the inbox.
  pageMax: 64,
  operationsPendingMax: 256,
  // Of those, what followers of events may take together, however many they are.
  followerReadsMax: 64,
  turnOperationsMax: 64,
  turnWorkMsMax: 20,
  // What may follow one operation in its turn. A completion has two or three; a quarantine has two a running run, and
  // goes on in the next turn.
  followMax: 256,

  // What a store keeps in memory of the runs that it carries on: records of about 0.7 KiB, so 1.4 MiB; 32 chains of 8
  // steps have 1,300. Of each run so many of its newest events: what followers ask for after a turn.
  knownRecordsMax: 2048,
  knownEventsMax: 16,
  knownPackageFactsMax: 256,

  // Attempts of one step, lost and withdrawn ones included: ends a loop that never gets a command started.
  attemptsPerStepMax: 64,
  retryLimitMax: 62,
  newsPerRunMax: 8,

  // Command lines: Linux allows 128 KiB a string (MAX_ARG_STRLEN), its NUL included.
  argumentBytesMax: 128 * KIB - 1,
  argumentsMax: 256,
  environmentEntriesMax: 256,

  // Settings of a package on this device: as many as a task has variables. All values together are far below what the
  // kernel takes for arguments and environment (6 MiB), and are read into memory to be listed.
  settingNameBytesMax: 63,
  settingSaltBytes: 16,
  settingsPerPackageMax: 256,
  settingsBytesMax: 1 * MIB,

  // Limits of a command. With less than 1 MiB nothing starts; a shell keeps descriptors of its own from 10 on;
  // 2^20 descriptors is the kernel's fs.nr_open. Nice values are the kernel's.
  memoryLimitBytesMin: 1 * MIB,
  openFilesMin: 16,
  openFilesMax: 2 ** 20,
  // What a process can hand to its parent.
  exitCodeMax: 255,
  niceMin: -20,
  niceMax: 19,
  retryFactorMax: 16,
  // The kernel's uid_t, less the one that stands for none.
  userIdMax: 2 ** 32 - 2,

  // Durations in milliseconds. A timer cannot hold more than 2^31−1.
  durationMsMax: 2 ** 31 - 1,
  alarmMsMax: 2 ** 31 - 1,
  taskTimeoutMsDefault: 3_600_000,
  graceMsDefault: 10_000,
  retryBackoffMsDefault: 5_000,
  retryBackoffMsMaxDefault: 60_000,

  // What an attempt takes in the run directory before its command begins: pages of 4 KiB and files (launcher.sh).
  placeBytesMin: 32 * KIB,
  placeFilesMin: 16,

  // An attempt that could not be decided at the start is looked at again after this long, doubling to the other.
  undecidedLookMsMin: 30_000,
  undecidedLookMsMax: 3_600_000,

  // An attempt proven unstarted backs off from 1 s, doubling to 60 s.
  unstartedBackoffMsMin: 1_000,
  unstartedBackoffMsMax: 60_000,

  // A pump may live on behind a grandchild that holds the pipe; after this its files are taken as they are.
  outputDrainMsMax: 2_000,

  // Kept output: what a small file takes up on flash, and how many names are read to find the oldest (20 ms here).
  keptCostBytesMin: 4 * KIB,
  keptFilesMax: 4096,

  // At a stop of the runtime, what KILL, the last output and the record of the end may take after the grace: of the
  // second that the service manager's limit leaves, a fifth is for closing the database.
  stopEndMsMax: 800,

  // KILL spares the launcher at first, so that it records the command's true end; this much later it spares nobody.
  killEscalationMs: 500,
  // How often a session without its launcher is looked at: nothing else would tell that it is over.
  sessionLookMsMin: 50,
  // Passes over /proc, some ms each, to find what a launcher that is being ended was just forking.
  endPassesMax: 3,
  // Looks at the processes that were started last, about 30 µs each: one that forks and ends lives for 60 µs or more.
  newestTriesMax: 50,
  // Beyond so many, a pass over all of /proc is not dearer.
  newPidsMax: 500,
  // Looks in a row that meet nobody of a session, and are not certain, before nobody is left of it.
  doubtfulLooksMax: 3,
  orphanLookMsMin: 1_000,
  orphanLookMsMax: 30_000,
  // A shortage of processes or descriptors that is there for a moment: three tries more, after 100, 200 and 400 ms;
  // then it is reported. A look that met one is made again after a second, for as long as it takes.
  spawnRetriesMax: 3,
  spawnRetryMsMin: 100,
  shortageLookMs: 1_000,

  // A busy database blocks the event loop inside SQLite for at most 50 ms; a turn is retried for 5 s in all.
  busyTimeoutMs: 50,
  turnRetryMsMax: 5_000,
  // Between two tries, so that the loop is blocked a third of the time at most.
  turnRetryPauseMs: 100,
  // After work, a process gives memory back once nothing has run for this long: one wake-up more, then none.
  quietAfterMs: 1_000,

  // An end that the database did not take (full, busy) is offered again; rarely enough to cost nothing.
  redeliveryMs: 2_000,

  // Linux: PATH_MAX.
  directoryBytesMax: 4096,

  // HTTP. What sun_path of a Unix socket holds, less its NUL.
  socketPathBytesMax: 107,
  // As many as the inbox takes; more are told `busy`, and twice as many are closed without a word.
  httpConnectionsMax: 256,
  // Method, path and headers of our clients need 300 bytes.
  httpHeaderBytesMax: 8 * KIB,
  // A directory is at most 4 KiB, a reason 2 KiB; escaped as JSON six times that.
  httpBodyBytesMax: 64 * KIB,
  // A plan as people print it: its canonical form with escapes and white space.
  httpPlanBodyBytesMax: 2 * MIB,
  // A value of 128 KiB, escaped as JSON at most six times as long.
  httpSettingBodyBytesMax: 1 * MIB,
  // All bodies that are being received, together: what requests can make this process hold.
  httpBodiesBytesMax: 8 * MIB,
  // Read and thrown away beyond its bound, so that the client is still there to read why it was refused.
  httpDiscardBytesMax: 8 * MIB,
  // A request arrives whole within 10 s, and a client takes what it is sent within 30 s, or it is dropped.
  httpRequestMsMax: 10_000,
  httpAnswerMsMax: 30_000,
  // Answers under way when the server closes: with the 4 s that commands get, inside the 5 s of procd.
  httpDrainMsMax: 500,
  // A client's own patience: copying a package of 64 MiB to slow flash takes a minute or two.
  httpPatienceMsMax: 300_000,
  // One event of a stream, as a client takes it: a payload, escaped as JSON at most six times as long, and ids.
  httpMessageBytesMax: 128 * KIB,
  // The largest answer is a page of 64 outcomes with 128 step ids each: below 512 KiB.
  httpAnswerBytesMax: 2 * MIB,

  // Settings of a data directory. A command has four processes beside it; collected output passes through memory; a
  // quota is a number that JSON holds exactly, and no disk of this kind of machine is larger.
  concurrencyMax: 256,
  outputBytesMax: 64 * MIB,
  quotaBytesMax: 16_384 * 1024 * MIB,

  // How long idempotency keys and plan ids outlive their run: 30 days on edge.
  admissionKeyMsMax: 30 * 24 * 3_600_000,
} as const;
