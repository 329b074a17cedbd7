// Attempts that certainly never started: what a durable intent makes of them.
import t from 'tap';
import { decideCompletion } from '../../src/core/completion.ts';
import type { EventDraft } from '../../src/core/events.ts';
import { sealAttempt } from '../../src/core/record-seal.ts';
import type { RunAttempt, RunRows } from '../../src/core/records.ts';
import { cancelReasons } from '../../src/core/states.ts';
import { changeRun } from './samples.ts';
import { sceneHead, sceneOf, sceneStep } from './scenes.ts';

const policy = { limit: 3, backoffMs: 0, factor: 1, maxMs: 0, on: ['failed', 'lost', 'timed_out'] as const };

function complete(rows: RunRows, change: Partial<RunAttempt>): EventDraft {
  const { digest: _, ...contents } = { ...rows.attempts.get(sceneHead.attemptId)!, ...change };
  const attempt = sealAttempt(contents);
  const events = decideCompletion({
    ...{ run: rows.run, step: rows.steps.get(sceneStep.id)!, attempts: [attempt], attempt, policy },
    facts: { kind: 'withdrawn' },
    now: { wallMs: 1, uptimeMs: 1, bootId: 'boot-1' },
  });
  t.equal(events.length, 1);
  return events[0]!;
}

const places = [
  { run: 'running', step: 'ready', attempt: 'claimed' },
  { run: 'running', step: 'running', attempt: 'starting' },
] as const;

for (const place of places) {
  t.test(`without an intent, an unstarted attempt that is ${place.attempt} gives its step back`, async (t) => {
    const event = complete(sceneOf(place), {});
    const payload = { errorCode: 'start_withdrawn', stepStatus: 'ready', stepResultCode: null };
    t.match(event, { type: 'attempt.lost', payload });
    t.ok('stepDue' in event.payload && event.payload.stepDue !== null, 'it backs off');
  });

  t.test(
    `with a cancel intent, an unstarted attempt that is ${place.attempt} takes its end, never ready`,
    async (t) => {
      for (const cancelReason of cancelReasons) {
        const rows = sceneOf(place);
        const run = changeRun(rows.run, { cancelReason, cancelRequestedAtMs: 1 });
        const end = cancelReason === 'timeout' ? 'timed_out' : 'cancelled';
        const payload = {
          errorCode: 'start_withdrawn',
          stepStatus: end,
          stepResultCode: 'start_withdrawn',
          stepDue: null,
        };
        t.match(complete({ ...rows, run }, {}), { type: `attempt.${end}`, payload }, cancelReason);
      }
    },
  );
}

t.test(
  'with a durable task timeout, an unstarted attempt times out, never ready, also under a later cancel',
  async (t) => {
    const rows = sceneOf(places[1]);
    const cancelled = changeRun(rows.run, { cancelReason: 'user', cancelRequestedAtMs: 1 });
    for (const run of [rows.run, cancelled]) {
      const event = complete({ ...rows, run }, { stopReason: 'timeout' });
      const payload = { errorCode: 'start_withdrawn', stepStatus: 'timed_out', stepResultCode: 'start_withdrawn' };
      t.match(event, { type: 'attempt.timed_out', payload });
    }
  },
);
