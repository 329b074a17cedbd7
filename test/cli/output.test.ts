import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { failureLines, failureOf, mistakeLine, refusal } from '../../src/cli/failure.ts';
import { createOutput, jsonLine, type OutputStream } from '../../src/cli/output.ts';
import { EdgeError, InvariantError } from '../../src/core/errors.ts';

const mistake = (rule: string) => ({ file: 'qinglong.yaml', path: 'tasks.a.run[0]', line: 12, rule });

t.test('an error is one line, and under it every mistake with file and line', async (t) => {
  const error = new EdgeError('invalid', 'the package in p has 2 mistakes', {
    hint: 'correct them',
    mistakes: [mistake('names x, which is no file'), { file: null, path: '', line: null, rule: 'is \x1b[31mempty' }],
  });
  t.same(failureLines(failureOf(error)), [
    'qinglong-edge: invalid: the package in p has 2 mistakes; correct them',
    '  qinglong.yaml:12: tasks.a.run[0] names x, which is no file',
    '  is \\x1b[31mempty',
  ]);
  t.equal(failureOf(error).exitCode, 2);
});

t.test('a single mistake that the line tells already is not told twice', async (t) => {
  const error = new EdgeError('invalid', '--tail is no option', {
    hint: 'see --help',
    mistakes: [mistake('is no option')],
  });
  t.equal(failureLines(failureOf(error)).length, 1);
});

t.test('a mistake is told with as much of its place as is known', async (t) => {
  t.equal(mistakeLine({ file: 'f', path: '', line: null, rule: 'is missing' }), 'f: is missing');
  t.equal(mistakeLine({ file: null, path: 'a.b', line: 3, rule: 'is missing' }), 'a.b is missing');
});

t.test('a name that is too long is not repeated whole with every mistake below it', async (t) => {
  const name = 'y'.repeat(150);
  const line = mistakeLine({ file: 'f', path: `workflows.${name}.steps.a`, line: 9, rule: `needs ${name}` });
  const cut = `${'y'.repeat(40)}... (150 characters)`;
  t.equal(line, `f:9: workflows.${cut}.steps.a needs ${cut}`);
});

t.test('what is no operating error is a defect, whatever was thrown', async (t) => {
  for (const thrown of [new InvariantError('broken'), new TypeError('x is undefined'), 'text', null]) {
    const { code, exitCode, hint } = failureOf(thrown);
    t.same([code, exitCode], ['internal', 70]);
    t.match(hint, 'QINGLONG_EDGE_DEBUG');
  }
});

t.test('a refused outcome ends with 3', async (t) => {
  t.match(refusal('conflict', 'taken', 'use another'), { code: 'conflict', exitCode: 3 });
});

t.test('JSON has nothing in it that a terminal would obey, and means the same', async (t) => {
  const value = { text: 'a\x1b[2J\x9b31m\u202e\u2028b' };
  const line = jsonLine(value);
  t.notMatch(line, /[\p{Cc}\u2028-\u202e]/u);
  t.same(JSON.parse(line), value);
});

function open(options: { readonly isJson: boolean; readonly locale?: string }) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const exits: number[] = [];
  const output = createOutput({
    stdout: stdout as OutputStream,
    stderr: stderr as OutputStream,
    environment: (name) => (name === 'LANG' ? (options.locale ?? null) : null),
    isJson: options.isJson,
    exit: (code) => exits.push(code),
  });
  return { output, stdout, stderr, exits };
}

t.test('with --json a failure is one JSON object on stderr', async (t) => {
  const { output, stdout, stderr } = open({ isJson: true });
  t.equal(output.fail(refusal('not-found', 'no run', 'see `runs list`')), 3);
  const expected = { error: { code: 'not-found', message: 'no run', hint: 'see `runs list`', mistakes: [] } };
  t.same(JSON.parse(String(stderr.read())), expected);
  t.equal(stdout.read(), null);
});

t.test('a locale without UTF-8 is given nothing that it cannot show; programs are given everything', async (t) => {
  const { output, stdout, stderr } = open({ isJson: false, locale: 'C' });
  output.print('线路 ok');
  output.note('é');
  t.same([String(stdout.read()), String(stderr.read())], ['???? ok\n', '?\n']);
  output.printJson({ title: '线路' });
  output.write('线路');
  t.equal(String(stdout.read()), '{"title":"线路"}\n线路');
  const json = open({ isJson: true, locale: 'C' });
  json.output.fail(refusal('not-found', '线路', ''));
  t.match(JSON.parse(String(json.stderr.read())), { error: { message: '线路' } });
});

t.test('a reader that goes away ends the command quietly, once', async (t) => {
  const { output, stdout, exits } = open({ isJson: false });
  stdout.destroy(Object.assign(new EdgeError('internal', 'x', { hint: '' }), { code: 'EPIPE' }));
  await setImmediate();
  output.print('more');
  await setImmediate();
  t.same(exits, [0]);
});

t.test('a command that has more to do is told instead', async (t) => {
  const { output, stdout, exits } = open({ isJson: false });
  let told = 0;
  output.onUnread(() => {
    told += 1;
  });
  stdout.destroy(Object.assign(new EdgeError('internal', 'x', { hint: '' }), { code: 'EPIPE' }));
  await setImmediate();
  output.print('more');
  t.same([told, exits], [1, []]);
});
