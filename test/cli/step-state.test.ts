import t from 'tap';
import { nextSteps } from '../../src/cli/result.ts';
import { attemptWord, reasonOf } from '../../src/cli/step-state.ts';
import { begin, fail, inspect, ready, storyOf } from './stories.ts';

t.test('an attempt is called by what is known of its end', (t) => {
  const unknown = { status: 'lost', errorCode: null, exitCode: null, signal: null } as const;
  t.equal(attemptWord(unknown), 'lost: nobody can say what became of it');
  t.equal(attemptWord({ ...unknown, errorCode: 'shutdown', signal: 'SIGTERM' }), 'stopped with the runtime');
  t.equal(attemptWord({ ...unknown, errorCode: 'shutdown' }), 'stopped with the runtime');
  t.equal(attemptWord({ ...unknown, errorCode: 'start_withdrawn' }), 'taken back: no command ran');
  t.equal(attemptWord({ ...unknown, exitCode: 0 }), 'lost');
  t.equal(attemptWord({ ...unknown, signal: 'SIGKILL' }), 'lost');
  t.equal(attemptWord({ ...unknown, status: 'starting' }), 'running', 'as its step');
  t.end();
});

t.test('nobody is sent to the output of a handler, which has none', (t) => {
  const story = storyOf({ a: [] });
  ready(story, 'a');
  begin(story, 'a');
  fail(story, 'a', { exitCode: null, outputBytes: null });
  const { run, steps, ...rest } = inspect(story);
  const as = (executorType: 'process' | 'handler') =>
    nextSteps(
      {
        ...rest,
        run: { ...run, status: 'failed' },
        steps: steps.map((step) => ({
          ...step,
          attempts: step.attempts.map((attempt) => ({ ...attempt, executorType, status: 'lost' })),
        })),
      },
      'qinglong-edge',
    ).filter((line) => line.includes('runs logs'));
  t.equal(as('process').length, 1);
  t.equal(as('handler').length, 0);
  t.end();
});

t.test('a command that the kernel ended for its limit is told with the limit', (t) => {
  const step = { status: 'failed', errorSummary: 'ended by SIGXCPU', resultCode: 'signal' } as const;
  t.equal(reasonOf(step), 'ended by SIGXCPU: its cpu limit is used up');
  t.equal(reasonOf({ ...step, errorSummary: 'ended by SIGKILL' }), 'ended by SIGKILL');
  t.end();
});
