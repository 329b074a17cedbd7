import fc from 'fast-check';
import t from 'tap';
import { fitLine, lineWidth, paintLine } from '../../src/cli/line.ts';
import { createPaint, glyphsOf } from '../../src/cli/terminal.ts';
import { headLine, treeRows } from '../../src/cli/tree.ts';
import { fitRows } from '../../src/cli/window.ts';
import type { RunInspection } from '../../src/runtime/inspection.ts';
import { chainOf } from '../core/samples.ts';
import { begin, fail, failForRetry, inspect, passMs, ready, skip, storyOf, succeed } from './stories.ts';

const plain = createPaint({ hasColour: false });
const glyphs = glyphsOf({ isUnicode: true });
const none = {
  glyphs,
  lastLines: new Map<string, string>(),
  titles: new Map<string, string>(),
  widthMax: null as number | null,
};

function show(inspection: RunInspection, nowMs: number, options: Partial<typeof none> = {}): readonly string[] {
  return treeRows(inspection, { nowMs, ...none, ...options }).map(({ line }) => paintLine(line, plain));
}

const diamond = { ads: [], hosts: [], merge: ['ads', 'hosts'], check: ['merge'], publish: ['ads', 'check'] };

t.test('steps stand below what they wait for longest, and the other needs are told', async (t) => {
  const story = storyOf(diamond);
  t.same(show(inspect(story), story.wallMs), [
    '├─ ○ ads               ready      ',
    '│  └─ · merge          waiting      also needs hosts',
    '│     └─ · check       waiting    ',
    '│        └─ · publish  waiting      also needs ads',
    '└─ ○ hosts             ready      ',
  ]);
});

t.test('a step says how long it runs, which attempt it is, and what it wrote last', async (t) => {
  const story = storyOf({ a: [], b: ['a'] });
  begin(story, 'a');
  passMs(story, 1_200);
  failForRetry(story, 'a', 5_000);
  t.match(show(inspect(story), story.wallMs + 1_500)[0], /○ a +retry in 4s +1\.2s/);
  passMs(story, 5_000);
  begin(story, 'a');
  const { steps } = inspect(story);
  const lastLines = new Map([[steps[0]!.stepRunId, 'line\x1b[2J']]);
  const [first] = show(inspect(story), story.wallMs + 65_000, { lastLines });
  t.match(first, /● a +running +1m05s {2}\(attempt 2\) {2}line\\x1b\[2J$/);
});

t.test('a failed step says why, and a skipped one what it missed', async (t) => {
  const story = storyOf({ a: [], b: ['a'] });
  begin(story, 'a');
  passMs(story, 40);
  fail(story, 'a');
  skip(story, 'b', 'needs a, which is failed');
  t.same(show(inspect(story), story.wallMs), [
    '└─ ✗ a     failed     40ms  exit code 3',
    '   └─ – b  skipped          needs a, which is failed',
  ]);
});

t.test('a title is shown until there is something better to say', async (t) => {
  const story = storyOf({ a: [] });
  const titles = new Map([['a', 'Is the line up?']]);
  t.match(show(inspect(story), story.wallMs, { titles })[0], /ready +Is the line up\?$/);
  begin(story, 'a');
  const lastLines = new Map([[inspect(story).steps[0]!.stepRunId, 'yes']]);
  t.match(show(inspect(story), story.wallMs, { titles, lastLines })[0], /0ms {2}yes$/);
});

t.test('the head names workflow, state, time and run', async (t) => {
  const story = storyOf({ a: [] });
  const line = headLine(inspect(story), { ...none, nowMs: story.wallMs + 12_000 });
  t.equal(paintLine(line, plain), 'net-watch/watch  running  12s  run run-1');
});

t.test('a clock that was set back shows no negative time', async (t) => {
  const story = storyOf({ a: [] });
  begin(story, 'a');
  t.match(show(inspect(story), story.wallMs - 60_000)[0], /running +0ms/);
});

t.test('a chain of 128 steps stays within half a line of indentation', async (t) => {
  const story = storyOf(chainOf(128));
  const rows = treeRows(inspect(story), { nowMs: story.wallMs, ...none });
  t.equal(rows.length, 128);
  t.ok(Math.max(...rows.map(({ line }) => lineWidth(line))) < 70);
});

t.test('every step of any workflow has one row, behind the row of its first deepest need', async (t) => {
  const shapes = fc.array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: 1, maxLength: 12 }).map((lists) => {
    const key = (index: number) => `s${`${index}`.padStart(2, '0')}`;
    const needs = lists.map((list, index) => (index === 0 ? [] : [...new Set(list.map((at) => key(at % index)))]));
    return Object.fromEntries(needs.map((list, index) => [key(index), list]));
  });
  fc.assert(
    fc.property(shapes, (shape) => {
      const story = storyOf(shape);
      const order = treeRows(inspect(story), { nowMs: 0, ...none }).map(({ step }) => step.stepKey);
      t.same([...order].sort(), Object.keys(shape).sort());
      for (const [key, needs] of Object.entries(shape)) {
        t.ok(needs.length === 0 || needs.some((need) => order.indexOf(need) < order.indexOf(key)));
      }
    }),
    { numRuns: 100 },
  );
});

t.test('a line that is too wide is cut with a mark, whatever its pieces', async (t) => {
  const story = storyOf(diamond);
  for (const widthMax of [5, 12, 24, 40, 80]) {
    for (const { line } of treeRows(inspect(story), { nowMs: story.wallMs, ...none })) {
      t.ok(lineWidth(fitLine(line, { widthMax, mark: '…' })) <= widthMax);
    }
  }
});

t.test('on a narrow terminal the names of steps are cut, never the words of their states', async (t) => {
  const key = 'a-step-with-a-name-that-nobody-can-remember';
  const story = storyOf({ [key]: [], short: [key] });
  begin(story, key);
  const now = { ...none, nowMs: story.wallMs + 2_500, widthMax: 39 };
  const lines = treeRows(inspect(story), now).map(({ line }) =>
    paintLine(fitLine(line, { widthMax: 39, mark: '…' }), plain),
  );
  t.same(lines, ['└─ ● a-step-with-a-na…  running    2.5s', '   └─ · short           waiting        ']);
  const head = paintLine(
    fitLine(headLine(inspect(story), { ...now, widthMax: 24 }), { widthMax: 24, mark: '…' }),
    plain,
  );
  t.equal(head, 'net-watc…  running  2.5s');
});

t.test('on a narrow terminal the branches take half of the names at most', async (t) => {
  const story = storyOf(chainOf(40));
  const rows = treeRows(inspect(story), { ...none, nowMs: story.wallMs, widthMax: 39 });
  for (const { line, step } of rows) {
    const text = paintLine(line, plain);
    t.ok(lineWidth(line) <= 39, text);
    t.match(text, step.stepKey);
    t.match(text, /(waiting|ready) *$/);
  }
});

t.test('what would be only a mark behind the rest of a line is left out', async (t) => {
  const story = storyOf({ a: [] });
  begin(story, 'a');
  fail(story, 'a');
  const lastLines = new Map([[inspect(story).steps[0]!.stepRunId, 'a last line of some length']]);
  const [row] = treeRows(inspect(story), { ...none, nowMs: story.wallMs, lastLines });
  const whole = paintLine(row!.line, plain);
  const fit = (widthMax: number) => paintLine(fitLine(row!.line, { widthMax, mark: '…' }), plain).trimEnd();
  const upToReason = whole.indexOf('exit code 3') + 'exit code 3'.length;
  t.equal(fit(upToReason + 4), whole.slice(0, upToReason));
  t.equal(fit(upToReason + 8), `${whole.slice(0, upToReason)}  a las…`);
});

t.test('a tree taller than the terminal keeps what runs and failed, and counts the rest', async (t) => {
  const keys = Array.from({ length: 40 }, (_, index) => `s${`${index}`.padStart(2, '0')}`);
  const story = storyOf(Object.fromEntries(keys.map((key, index) => [key, index === 0 ? [] : ['s00']])));
  begin(story, 's00');
  succeed(story, 's00');
  keys.slice(1).forEach((key) => {
    ready(story, key);
  });
  begin(story, 's05');
  fail(story, 's05');
  begin(story, 's20');
  const rows = treeRows(inspect(story), { nowMs: story.wallMs, ...none });
  for (const rowsMax of [1, 2, 3, 5, 8, 39]) {
    const lines = fitRows(rows, { rowsMax, glyphs }).map((line) => paintLine(line, plain));
    t.ok(lines.length <= rowsMax, `${lines.length} lines of ${rowsMax}`);
    t.ok(rowsMax < 3 || lines.some((line) => line.includes('s20')), 'what runs is shown');
    t.ok(rowsMax < 5 || lines.some((line) => line.includes('s05')), 'what failed is shown');
  }
  t.equal(fitRows(rows, { rowsMax: 40, glyphs }).length, 40);
  const five = fitRows(rows, { rowsMax: 5, glyphs }).map((line) => paintLine(line, plain));
  t.match(five[0], /^⋮ 1 succeeded, 4 ready$/);
});
