// What a completion says of times: the command's own end and duration, whatever became of the wall clock meanwhile.
import t from 'tap';
import { type AttemptFacts, decideCompletion } from '../../src/core/completion.ts';
import type { EventDraft } from '../../src/core/events.ts';
import { sealAttempt } from '../../src/core/record-seal.ts';
import { changeRun } from './samples.ts';
import { sceneHead, sceneOf, sceneStep } from './scenes.ts';

const policy = { limit: 0, backoffMs: 0, factor: 1, maxMs: 0, on: ['failed'] as const };
const exited = {
  kind: 'exited',
  exitCode: 0,
  signal: null,
  outputBytes: 0,
  outputTruncated: false,
  note: null,
  isStopped: false,
} as const;
const startedAtMs = 1_000;

/** Completes an attempt that was started at wall time 1 000 and uptime 50. */
function complete(facts: AttemptFacts, now: { readonly wallMs: number; readonly bootId?: string }): EventDraft {
  const rows = sceneOf({ run: 'running', step: 'running', attempt: 'starting' });
  const { digest: _, ...contents } = rows.attempts.get(sceneHead.attemptId)!;
  const deadline = { startMs: startedAtMs, startUptimeMs: 50, bootId: 'boot-1', lengthMs: 60_000 };
  const attempt = sealAttempt({ ...contents, startedAtMs, deadline });
  const run = changeRun(rows.run, { updatedAtMs: startedAtMs });
  const step = rows.steps.get(sceneStep.id)!;
  const at = { uptimeMs: 7_050, bootId: 'boot-1', ...now };
  return decideCompletion({ run, step, attempts: [attempt], attempt, policy, facts, now: at })[0]!;
}

t.test("an end is the command's own, however late it is recorded", async (t) => {
  const event = complete({ ...exited, finishedAtMs: 6_000, durationMs: 4_990 }, { wallMs: 90_000 });
  t.match(event, { type: 'attempt.succeeded', payload: { finishedAtMs: 6_000, durationMs: 4_990 } });
});

t.test('a wall clock that was set meanwhile puts no end before its start or after its record', async (t) => {
  const facts = { ...exited, durationMs: 4_990 };
  t.match(complete({ ...facts, finishedAtMs: 3 }, { wallMs: 90_000 }), { payload: { finishedAtMs: startedAtMs } });
  t.match(complete({ ...facts, finishedAtMs: 95_000 }, { wallMs: 90_000 }), { payload: { finishedAtMs: 90_000 } });
  const isSetBack = complete({ ...facts, finishedAtMs: 6_000 }, { wallMs: 3 });
  t.match(isSetBack, { payload: { finishedAtMs: startedAtMs, durationMs: 4_990 } });
});

t.test('a handler took as long as it ran in this process; nobody knows what it took in another boot', async (t) => {
  const returned = { kind: 'returned', errorSummary: null } as const;
  t.match(complete(returned, { wallMs: 3 }), { payload: { finishedAtMs: null, durationMs: 7_000 } });
  t.match(complete(returned, { wallMs: 3, bootId: 'boot-2' }), { payload: { durationMs: null } });
});

t.test('what nobody saw has no duration', async (t) => {
  const lost = complete({ kind: 'lost', errorSummary: null }, { wallMs: 90_000 });
  t.match(lost, { type: 'attempt.lost', payload: { finishedAtMs: null, durationMs: null } });
});
