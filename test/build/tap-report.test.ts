import t from 'tap';
import { createTapReport, type TapFile } from '../../build/tap-report.ts';

function readTap(text: string) {
  const files: TapFile[] = [];
  const report = createTapReport((file) => files.push(file));
  report.parser.end(text);
  return { files, counts: report.counts, isComplete: report.isComplete };
}

/** The stream of one file whose body is given, with the point that sums it up. */
function fileStream(point: string, ...body: string[]): string {
  return ['TAP version 14', '# Subtest: a.test.ts', ...body.map((line) => `    ${line}`), point, '1..1', ''].join('\n');
}

const twoAssertions = ['# Subtest: a rule', '    ok 1 - one', '    ok 2 - two', '    1..2', 'ok 1 - a rule', '1..1'];

t.test('a block of assertions is one test', async (t) => {
  const { counts, isComplete } = readTap(fileStream('ok 1 - a.test.ts # time=12ms', ...twoAssertions));
  t.same(counts, { passed: 1, failed: 0, skipped: 0 });
  t.ok(isComplete);
});

t.test('a block without assertions that did not throw is a test that passed', async (t) => {
  const body = ['# Subtest: a property holds', '    1..0', 'ok 1 - a property holds', '1..1'];
  t.same(readTap(fileStream('ok 1 - a.test.ts', ...body)).counts, { passed: 1, failed: 0, skipped: 0 });
});

t.test('only innermost blocks are counted', async (t) => {
  const inner = [...twoAssertions.slice(0, -1), '# Subtest: another', '    ok 1', '    1..1', 'ok 2 - another', '1..2'];
  const body = ['# Subtest: a group', ...inner.map((line) => `    ${line}`), 'ok 1 - a group', '1..1'];
  t.same(readTap(fileStream('ok 1 - a.test.ts', ...body)).counts, { passed: 2, failed: 0, skipped: 0 });
});

t.test('a failed assertion is told with its details, once', async (t) => {
  const body = [
    '# Subtest: a rule',
    '    not ok 1 - one is two',
    '      ---',
    '      diff: "-1 +2"',
    '      ...',
    '    1..1',
    'not ok 1 - a rule',
    '1..1',
  ];
  const { counts, files } = readTap(fileStream('not ok 1 - a.test.ts', ...body));
  t.same(counts, { passed: 0, failed: 1, skipped: 0 });
  t.same(files[0]?.failures, ['not ok: a.test.ts > a rule > one is two\n  diff: -1 +2']);
});

t.test('a file that fails though its tests passed counts as one failure', async (t) => {
  const { counts, files } = readTap(fileStream('not ok 1 - a.test.ts\n  ---\n  exitCode: 1\n  ...', ...twoAssertions));
  t.same(counts, { passed: 1, failed: 1, skipped: 0 });
  t.same(files[0]?.failures, ['not ok: a.test.ts\n  exitCode: 1']);
});

t.test('a file that ran no test counts as one failure', async (t) => {
  t.same(readTap(fileStream('ok 1 - a.test.ts # SKIP no tests found', '1..0')).counts, {
    passed: 0,
    failed: 1,
    skipped: 0,
  });
});

t.test('skipped and unfinished tests are neither passed nor failed', async (t) => {
  const body = [
    ...twoAssertions.slice(0, -1),
    'ok 2 - later # SKIP no disk',
    `not ok 3 - soon # ${'TO'}${'DO'}`,
    '1..3',
  ];
  t.same(readTap(fileStream('ok 1 - a.test.ts', ...body)).counts, { passed: 1, failed: 0, skipped: 2 });
});

t.test('a stream that breaks off is not complete', async (t) => {
  t.notOk(readTap('TAP version 14\n# Subtest: a.test.ts\n    ok 1\n').isComplete);
});
