// What becomes of an output at the end of its attempt: told, kept by policy, and never in the way.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import { createOutputTaker, type EndedOutput, outputNotKept, tailBytesMax } from '../../src/runtime/attempt-output.ts';
import { KeptOutput } from '../../src/runtime/kept-output.ts';
import { realClock } from '../../src/runtime/ports.ts';
import type { KeepOutput } from '../../src/runtime/settings.ts';
import { readWhole, writeAttempt } from './outputs.ts';

const exited: Extract<AttemptEnd, { kind: 'exited' }> = {
  kind: 'exited',
  exitCode: 0,
  signal: null,
  isPerhapsSignal: false,
  startedAtMs: 1,
  finishedAtMs: 2,
  durationMs: 1,
  endUptimeMs: 2,
  outputBytes: 5,
  outputTruncated: false,
  isForced: false,
  leftoversCount: 0,
  note: null,
};

const ends = {
  success: exited,
  failure: { ...exited, exitCode: 3 },
  signal: { ...exited, exitCode: 143, signal: 'SIGTERM' },
  lost: { kind: 'lost', isForced: false, errorSummary: 'its launcher ended without a receipt' },
  unstarted: { kind: 'spawn-failed', errorCode: 'command_missing', errorSummary: 'there is no such command' },
  withdrawn: { kind: 'withdrawn' },
} as const satisfies Record<string, AttemptEnd>;

function open(t: Test, options: { policy?: KeepOutput; isStopping?: boolean; hasListener?: boolean } = {}) {
  const root = t.testdir();
  const artifacts = path.join(root, 'artifacts');
  const told: EndedOutput[] = [];
  const lines: string[] = [];
  const settings = { directory: artifacts, bytesMax: 1_000_000, quotaBytes: 10_000_000, clock: realClock() };
  let opened = 0;
  const take = createOutputTaker({
    executor: {
      openOutput: (attemptId) => {
        opened += 1;
        return writeAttempt(path.join(root, 'attempts', attemptId), attemptId, `out of ${attemptId}\n`);
      },
    },
    kept: new KeptOutput({ ...settings, isInFlight: () => true }),
    policy: options.policy ?? 'failures',
    find: (attemptId) =>
      attemptId === 'at-unknown' ? null : { runId: 'run-1', isStopping: options.isStopping ?? false },
    onOutput: options.hasListener === true ? (output) => told.push(output) : null,
    log: (line) => lines.push(line),
  });
  const isKept = (attemptId: string) => readWhole(artifacts, { runId: 'run-1', attemptId }) !== null;
  return { artifacts, told, lines, take, isKept, openedCount: () => opened };
}

const kinds = Object.keys(ends) as (keyof typeof ends)[];

for (const [name, options, expected] of [
  ['of failures only', { policy: 'failures' }, ['failure', 'signal', 'lost']],
  [
    'of what was stopped, whatever its exit code',
    { policy: 'failures', isStopping: true },
    ['success', 'failure', 'signal', 'lost'],
  ],
  ['always', { policy: 'always' }, ['success', 'failure', 'signal', 'lost']],
  ['never', { policy: 'never' }, []],
] as const) {
  t.test(`output is kept ${name}, and of no attempt without a command`, async (t) => {
    const { take, isKept } = open(t, options);
    for (const kind of kinds) {
      t.same(await take(`at-${kind}`, ends[kind]), ends[kind], 'the end is as it was');
    }
    t.same(
      kinds.filter((kind) => isKept(`at-${kind}`)),
      expected,
    );
  });
}

t.test('the output of a quick success is not even opened', async (t) => {
  const { take, openedCount } = open(t);
  await take('at-1', ends.success);
  await take('at-unknown', ends.failure);
  t.equal(openedCount(), 0);
});

t.test('whoever listens is told the end of every output at once, kept or not', async (t) => {
  const { take, told } = open(t, { policy: 'never', hasListener: true });
  const taken = take('at-1', ends.success);
  t.same(
    told.map(({ attemptId, totalBytes, tail }) => [attemptId, totalBytes, `${tail}`]),
    [['at-1', 12, 'out of at-1\n']],
  );
  await taken;
  await take('at-2', ends.unstarted);
  t.equal(told.length, 1);
  t.ok(tailBytesMax <= 65_536);
});

t.test('output that cannot be kept is said with the end, and once in the log; so is that it works again', async (t) => {
  const { artifacts, take, lines, isKept } = open(t);
  writeFileSync(artifacts, 'in the way');
  t.match(await take('at-1', ends.failure), { ...ends.failure, note: new RegExp(`^${outputNotKept}: E[A-Z]+`) });
  t.match(await take('at-2', { ...ends.failure, note: 'KILL was needed' }), {
    note: /^KILL was needed; its output could/,
  });
  t.match(await take('at-3', ends.lost), {
    kind: 'lost',
    errorSummary: /without a receipt; its output could not be kept: /,
  });
  t.equal(lines.length, 1);
  t.match(lines[0], /^output cannot be kept: /);
  rmSync(artifacts);
  mkdirSync(artifacts);
  t.same(await take('at-4', ends.failure), ends.failure);
  t.ok(isKept('at-4'));
  t.same(lines.slice(1), ['output is kept again']);
});
