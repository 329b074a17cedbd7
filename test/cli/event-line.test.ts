import t from 'tap';
import { describeEvent } from '../../src/cli/event-line.ts';
import { lineWidth, paintLine } from '../../src/cli/line.ts';
import { failedSteps, failureLine, nextSteps, outputHint, resultLine } from '../../src/cli/result.ts';
import { hintRunId } from '../../src/cli/run-id.ts';
import { elapsedOfStep } from '../../src/cli/step-state.ts';
import { createPaint } from '../../src/cli/terminal.ts';
import { draft } from '../../src/core/events.ts';
import { evolve } from '../../src/core/evolve.ts';
import type { RunRows } from '../../src/core/records.ts';
import type { Story } from '../core/samples.ts';
import { append, begin, fail, failForRetry, inspect, passMs, ready, skip, storyOf, succeed } from './stories.ts';

const plain = createPaint({ hasColour: false });

function tell(story: Story): readonly string[] {
  let rows: RunRows | null = null;
  const lines: string[] = [];
  for (const event of story.events) {
    rows = evolve(rows, event);
    const told = describeEvent(event, rows);
    if (told !== null) {
      lines.push(`${told.subject}: ${told.text}`);
    }
  }
  return lines;
}

t.test('one line for each event that matters, and none for the others', async (t) => {
  const story = storyOf({ a: [], b: ['a'], c: ['b'] });
  begin(story, 'a');
  passMs(story, 400);
  failForRetry(story, 'a', 5_000);
  passMs(story, 5_000);
  begin(story, 'a');
  passMs(story, 1_500);
  succeed(story, 'a');
  ready(story, 'b');
  begin(story, 'b');
  fail(story, 'b');
  skip(story, 'c', 'needs b, which is failed');
  append(story, draft('workflow.failed', { errorCode: 'workflow_step_failed', errorSummary: 'step b failed' }));
  t.same(tell(story), [
    'run: run-1 admitted: net-watch/watch',
    'a: running (attempt 1)',
    'a: failed after 400ms: exit code 3; again in 5.0s',
    'a: running (attempt 2)',
    'a: succeeded after 1.5s',
    'b: running (attempt 1)',
    'b: failed after 0ms: exit code 3',
    'c: skipped: needs b, which is failed',
  ]);
});

t.test(
  'a command takes the time that it ran, whatever the wall clock does and however late its end is recorded',
  async (t) => {
    const story = storyOf({ a: [] });
    begin(story, 'a');
    passMs(story, 120 * 24 * 3_600_000);
    succeed(story, 'a', { durationMs: 1_500 });
    t.equal(tell(story).at(-1), 'a: succeeded after 1.5s');
    t.equal(elapsedOfStep(inspect(story).steps[0]!, story.wallMs), '1.5s');
  },
);

t.test('attempts are counted within their step, as `runs logs --attempt` counts', async (t) => {
  const story = storyOf({ a: [], b: [] });
  begin(story, 'a');
  begin(story, 'b');
  t.same(tell(story).slice(1), ['a: running (attempt 1)', 'b: running (attempt 1)']);
});

t.test('a cancellation and its reason are told', async (t) => {
  const story = storyOf({ a: [] });
  append(story, draft('workflow.cancel_requested', { reason: 'policy' }));
  t.equal(tell(story).at(-1), 'run: is being cancelled (policy)');
});

t.test('news may hold any text and is neutralized', async (t) => {
  const story = storyOf({ a: [] });
  begin(story, 'a');
  succeed(story, 'a');
  append(story, draft('workflow.succeeded', { errorCode: null, errorSummary: null }));
  append(story, draft('workflow.leftover_found', { summary: 'pid 7 \x1b[2J' }));
  t.equal(tell(story).at(-1), 'run: pid 7 \\x1b[2J');
});

t.test('the result counts the steps where they did not all succeed, and says what to do next', async (t) => {
  const story = storyOf({ a: [], b: ['a'] });
  begin(story, 'a');
  fail(story, 'a');
  skip(story, 'b', 'needs a, which is failed');
  passMs(story, 2_300);
  append(story, draft('workflow.failed', { errorCode: 'workflow_step_failed', errorSummary: 'step a failed' }));
  const inspection = inspect(story);
  const line = paintLine(resultLine(inspection, story.wallMs + 9_000), plain);
  t.equal(line, 'failed: net-watch/watch, 2 steps (1 failed, 1 skipped) in 2.3s');
  t.same(
    failedSteps(inspection).map((step) => paintLine(failureLine(step), plain)),
    ['step a failed: exit code 3'],
  );
  t.same(nextSteps(inspection, 'qinglong-edge'), [
    'its output: qinglong-edge runs logs run-1 a',
    'everything: qinglong-edge runs show run-1',
  ]);
});

t.test('output is offered only where there is some', async (t) => {
  const story = storyOf({ a: [] });
  begin(story, 'a');
  fail(story, 'a', {
    exitCode: null,
    outputBytes: null,
    errorCode: 'not_found',
    errorSummary: 'there is no such command',
  });
  append(story, draft('workflow.failed', { errorCode: 'workflow_step_failed', errorSummary: 'step a failed' }));
  t.equal(outputHint(inspect(story), 'q'), null);
  t.same(nextSteps(inspect(story), 'q'), ['everything: q runs show run-1']);
});

t.test('in what to do next an id is shortened to its milliseconds', async (t) => {
  t.equal(hintRunId('01a22d40-9156-7001-8fe5-da44f894340d'), '01a22d40-9156');
  t.equal(hintRunId('run-1'), 'run-1');
});

t.test('a run that succeeded is one short line and needs nothing next', async (t) => {
  const story = storyOf({ a: [] });
  begin(story, 'a');
  succeed(story, 'a');
  append(story, draft('workflow.succeeded', { errorCode: null, errorSummary: null }));
  const inspection = inspect(story);
  t.equal(paintLine(resultLine(inspection, 0), plain), 'succeeded: net-watch/watch, 1 step in 0ms');
  t.same(nextSteps(inspection, 'q'), []);
  t.ok(lineWidth(resultLine(inspection, 0)) < 80);
});
