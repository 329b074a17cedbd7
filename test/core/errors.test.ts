import t from 'tap';
import { assert, EdgeError, errorTable, InvariantError, isEdgeError } from '../../src/core/errors.ts';

// By hand from the design: 2 invalid, 3 refused, 4 busy, full, unavailable or unknown, 5 damaged; 70 is a defect.
const expected = {
  invalid: { exitCode: 2, httpStatus: 400, isRetryable: false },
  'not-found': { exitCode: 3, httpStatus: 404, isRetryable: false },
  busy: { exitCode: 4, httpStatus: 503, isRetryable: true },
  full: { exitCode: 4, httpStatus: 507, isRetryable: true },
  unavailable: { exitCode: 4, httpStatus: 503, isRetryable: true },
  damaged: { exitCode: 5, httpStatus: 500, isRetryable: false },
  'unknown-outcome': { exitCode: 4, httpStatus: 503, isRetryable: true },
  internal: { exitCode: 70, httpStatus: 500, isRetryable: false },
};

t.test('the table of errors is closed, and each row is the one of the design', async (t) => {
  t.same(errorTable, expected);
});

t.test('an error carries its code, its hint, its cause and every mistake', async (t) => {
  const cause = new TypeError('inner');
  const mistake = { file: 'qinglong.yaml', path: 'tasks.a', line: 3, rule: 'is missing' };
  const error = new EdgeError('invalid', 'what happened', { hint: 'what to do', cause, mistakes: [mistake] });
  t.match(error, { code: 'invalid', message: 'what happened', hint: 'what to do', cause, mistakes: [mistake] });
  t.ok(error instanceof Error);
  const bare = new EdgeError('busy', 'busy', { hint: 'wait' });
  t.same(bare.mistakes, []);
  t.notOk('cause' in bare);
});

t.test('an error is told by its code, also when it comes from another bundle', async (t) => {
  t.ok(isEdgeError(new EdgeError('full', 'full', { hint: 'free space' })));
  const foreign = Object.assign(new TypeError('of another copy of this class'), { name: 'EdgeError', code: 'damaged' });
  t.ok(isEdgeError(foreign));
  const system = Object.assign(new TypeError('x'), { code: 'ENOENT' });
  const unknown = Object.assign(new TypeError('x'), { name: 'EdgeError', code: 'toString' });
  for (const value of [system, unknown, new InvariantError('x'), { name: 'EdgeError', code: 'full' }, null, 'full']) {
    t.notOk(isEdgeError(value));
  }
});

t.test('a broken invariant is no operating error', async (t) => {
  t.doesNotThrow(() => assert(1, 'holds'));
  t.throws(() => assert(0, 'a run has an end'), {
    name: 'InvariantError',
    message: 'broken invariant: a run has an end',
  });
});
