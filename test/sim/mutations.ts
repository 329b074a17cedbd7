// Rules that are broken on purpose, each by one exact change of one source file. A change that does not match exactly
// once is an error: the source has moved on, and the mutation has to follow it.

/** `simulation`: seeds of the simulator; else test files, for what only real files and processes show. */
export type Catcher = 'simulation' | readonly string[];

export type Mutation = {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  readonly caughtBy: Catcher;
};

const simulated: readonly Omit<Mutation, 'caughtBy'>[] = [
  {
    name: 'an operation that failed keeps what it had written',
    file: 'src/store/sqlite/driver.ts',
    from: '          rollbackTo.run({});\n',
    to: '',
  },
  {
    name: 'what follows an operation and finds no space is forgotten',
    file: 'src/runtime/runtime.ts',
    from: '      owed: (operation, error) => this.#deliveries.owe(operation, error),\n',
    to: '',
  },
  {
    name: 'answers are given before COMMIT',
    file: 'src/store/sqlite/authority.ts',
    from: '    const result = commitTurn(this.#connection.db);\n',
    to: `    for (const { member, answer } of turn.answers) {
      member.settle(answer);
    }
    const result = commitTurn(this.#connection.db);\n`,
  },
  {
    name: 'effects do not wait for the start barrier',
    file: 'src/store/sqlite/authority.ts',
    from: '    const result = commitTurn(this.#connection.db);\n',
    to: '    this.#hooks?.committed(turn.settled);\n    const result = commitTurn(this.#connection.db);\n',
  },
  {
    name: 'a COMMIT of unknown outcome counts as done',
    file: 'src/store/sqlite/turn.ts',
    from: "    return { kind: code !== null && certainFailures.has(code) ? 'failed' : 'unknown', error };",
    to: "    return code !== null && certainFailures.has(code) ? { kind: 'failed', error } : { kind: 'committed' };",
  },
  {
    name: 'a COMMIT of unknown outcome counts as failed and is done again',
    file: 'src/store/sqlite/turn.ts',
    from: "certainFailures.has(code) ? 'failed' : 'unknown', error };",
    to: "certainFailures.has(code) ? 'failed' : 'failed', error };",
  },
  {
    name: 'after a doubtful commit nobody looks at what runs',
    file: 'src/runtime/runtime.ts',
    from: '        this.takeOver.doubt();\n',
    to: '',
  },
  {
    name: 'a cancel leaves the starts that no command has taken',
    file: 'src/runtime/attempts.ts',
    from: '      executor.stop(attemptId, { graceMs: Math.min(entry.graceMs, graceMsMax) });\n',
    to: '',
  },
  {
    name: 'a cancelled run is not brought to its end',
    file: 'src/protocol/cancel.ts',
    from: 'follow: [operation(converge, { runId })] };',
    to: 'follow: [] };',
  },
  {
    name: 'a step that a cancel has reached is tried again',
    file: 'src/core/completion.ts',
    from: "  if (run.cancelRequestedAtMs !== null && attempt.stopReason !== 'timeout') {",
    to: "  if (run.cancelRequestedAtMs !== null && attempt.stopReason !== 'timeout' && facts.kind !== 'exited') {",
  },
  {
    name: 'retries are counted anew after a reboot',
    file: 'src/core/retry.ts',
    from: '  const used = attempts.filter(isUsed).length;',
    to: '  const used = attempts.filter((attempt) => isUsed(attempt) && attempt.bootId === now.bootId).length;',
  },
  {
    name: 'one retry too many',
    file: 'src/core/retry.ts',
    from: 'used > policy.limit',
    to: 'used > policy.limit + 1',
  },
  {
    name: 'a lost attempt is tried again without leave',
    file: 'src/core/retry.ts',
    from: '!policy.on.includes(cause) ||',
    to: "(cause !== 'lost' && !policy.on.includes(cause)) ||",
  },
  {
    name: 'a back-off does not grow',
    file: 'src/core/retry.ts',
    from: 'policy.factor ** Math.max(0, used - 1)',
    to: 'policy.factor ** Math.min(0, used - 1)',
  },
  {
    name: 'two epochs of a step share one attempt',
    file: 'src/protocol/attempt.ts',
    from: 'stepRunId: step.id, epoch: step.version });',
    to: 'stepRunId: step.id, epoch: 1 });',
  },
  {
    name: 'a step starts before it is due',
    file: 'src/protocol/attempt.ts',
    from: '    if (waitMs > 0) {',
    to: '    if (waitMs > 5_000) {',
  },
  {
    name: 'the deadline of an adopted command is forgotten',
    file: 'src/runtime/recovery.ts',
    from: '{ rows, attempt, deadline: attempt.deadline }',
    to: '{ rows, attempt, deadline: null }',
  },
  {
    name: 'the timeouts of running runs are forgotten at a restart',
    file: 'src/runtime/take-over.ts',
    from: '        deadlines.hold(run);\n',
    to: '',
  },
  {
    name: 'one command more than may run',
    file: 'src/runtime/starts.ts',
    from: 'const free = concurrencyMax - running.length;',
    to: 'const free = concurrencyMax - running.length + 1;',
  },
  {
    name: 'one command more of a workflow than may run',
    file: 'src/protocol/attempt.ts',
    from: 'busyOfWorkflow >= busyMax',
    to: 'busyOfWorkflow > busyMax',
  },
  {
    name: 'the newest run starts first',
    file: 'src/store/sqlite/reads-page.ts',
    from: 'ORDER BY r.createdAtMs, r.planDigest, s.recordKey LIMIT +:limit',
    to: 'ORDER BY r.createdAtMs DESC, r.planDigest, s.recordKey LIMIT +:limit',
  },
  {
    name: 'a step starts when the first of its needs has succeeded',
    file: 'src/core/frontier.ts',
    from: "step.needs.every((need) => statuses.get(need) === 'succeeded')",
    to: "step.needs.some((need) => statuses.get(need) === 'succeeded')",
  },
  {
    name: 'a skip does not spread',
    file: 'src/core/frontier.ts',
    from: "        queue.push([dependent, 'skipped']);\n",
    to: '',
  },
  {
    name: 'digests of records are not compared',
    file: 'src/core/record-seal.ts',
    from: '  if (digestOf(record) !== record.digest) {',
    to: "  if (digestOf(record) === '') {",
  },
  {
    name: 'times follow a clock that is set back',
    file: 'src/core/events.ts',
    from: '  const createdAtMs = Math.max(wallMs, run.updatedAtMs);',
    to: '  const createdAtMs = wallMs;',
  },
  {
    name: 'a quarantine lets running runs go on',
    file: 'src/protocol/package.ts',
    from: '      follow: [operation(cancelCondemned, { after: null, requestedBy })],\n',
    to: '',
  },
  {
    name: 'a start forgets its idempotency key',
    file: 'src/protocol/admit.ts',
    from: '    if (key !== null) {\n      return { outcome: replayStart(input, key, admission) };\n    }\n',
    to: '',
  },
  {
    name: 'a column of a step is not written',
    file: 'src/store/sqlite/append.ts',
    from: 'attemptCount = :attemptCount, dueStartMs = :dueStartMs,',
    to: 'attemptCount = max(0, :attemptCount - 1), dueStartMs = :dueStartMs,',
  },
  {
    name: 'the inbox has no bound',
    file: 'src/store/sqlite/authority.ts',
    from: '    if (this.#pending >= limits.operationsPendingMax) {',
    to: '    if (this.#pending >= 2 * limits.operationsPendingMax) {',
  },
  {
    name: 'directories of ended attempts stay',
    file: 'src/runtime/attempts.ts',
    from: "    if (entry?.executorType !== 'handler') {",
    to: "    if (entry?.executorType === 'handler') {",
  },
];

const tested: readonly Mutation[] = [
  {
    name: 'a run is written over another version of it',
    file: 'src/store/sqlite/append.ts',
    from: `    historyDigest = :historyDigest, digest = :digest
  WHERE recordKey = :recordKey AND version = :expectedVersion`,
    to: `    historyDigest = :historyDigest, digest = :digest
  WHERE recordKey = :recordKey AND version >= min(version, :expectedVersion)`,
    caughtBy: ['test/store/sqlite/append.test.ts'],
  },
  {
    name: 'what was rolled back is remembered',
    file: 'src/store/sqlite/run-memory.ts',
    from: '    this.#runs.clear();\n    this.#weight = 0;\n',
    to: '',
    caughtBy: ['test/store/sqlite/run-memory.test.ts'],
  },
  {
    name: 'what another process has committed is not noticed',
    file: 'src/store/sqlite/run-memory.ts',
    from: '    if (version !== this.#version) {\n',
    to: '    if (this.#version === null) {\n',
    caughtBy: ['test/store/sqlite/run-memory.test.ts'],
  },
  {
    name: 'a transaction that was never committed is remembered',
    file: 'src/store/sqlite/run-memory.ts',
    from: '    if (this.#hasWritten) {\n      this.forgetAll();\n',
    to: '    if (this.#hasWritten) {\n',
    caughtBy: ['test/store/sqlite/run-memory.test.ts'],
  },
  {
    name: 'COMMIT does not wait for the disk',
    file: 'src/store/sqlite/profile.ts',
    from: "{ set: 'PRAGMA synchronous = EXTRA', answer: 3 }",
    to: "{ set: 'PRAGMA synchronous = OFF', answer: 0 }",
    caughtBy: ['test/store/sqlite/open.test.ts'],
  },
  {
    name: 'a directory that is held looks free',
    file: 'src/store/sqlite/holder-lock.ts',
    from: "    db.exec('BEGIN EXCLUSIVE');\n",
    to: "    db.exec('BEGIN IMMEDIATE');\n",
    caughtBy: ['test/store/sqlite/holder-lock.test.ts'],
  },
  {
    name: 'what comes after a migration that failed stays',
    file: 'src/store/sqlite/migrate.ts',
    from: "      db.exec('ROLLBACK');\n",
    to: "      db.exec('COMMIT');\n",
    caughtBy: ['test/store/sqlite/migrate.test.ts'],
  },
  {
    name: 'an end and the start that takes its slot are counted both',
    file: 'src/runtime/carried-starts.ts',
    from: 'if (!slot.take() && slots.free <= 0) {',
    to: 'if (slots.free <= 0) {',
    caughtBy: ['test/runtime/cluster-starts.test.ts'],
  },
  {
    name: 'a group is carried out under leases that are over',
    file: 'src/store/postgres/group-of-runs.ts',
    from: '[leasesStatement(members.map(({ lease }) => lease)), combineViews(views)]',
    to: '[combineViews(views)]',
    caughtBy: ['test/store/postgres/group-of-runs.test.ts'],
  },
  {
    name: 'a COMMIT of a group whose answer was lost counts as not done',
    file: 'src/store/postgres/group.ts',
    from: "return isSessionLost(failed.error) ? { kind: 'unknown', error: failed.error } : { kind: 'apart' };",
    to: "return { kind: 'apart' };",
    caughtBy: ['test/store/postgres/group-of-admissions.test.ts'],
  },
  {
    name: 'what was started on another machine is lost at once',
    file: 'src/store/postgres/leases.ts',
    from: '            OR me.is_settled AND (\n',
    to: '            OR true OR me.is_settled AND (\n',
    caughtBy: ['test/store/postgres/leases.test.ts'],
  },
  {
    name: 'a token of a run that is taken back fits again',
    file: 'src/store/postgres/leases.ts',
    from: '  WHERE NOT d.goes_on AND l.run_id',
    to: '  WHERE l.run_id',
    caughtBy: ['test/store/postgres/leases.test.ts'],
  },
];

export const mutations: readonly Mutation[] = [
  ...simulated.map((mutation) => ({ ...mutation, caughtBy: 'simulation' as const })),
  ...tested,
];
