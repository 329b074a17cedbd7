// The pure parts of `npm run bench`: what a figure is made of its samples, how a result is written, printed and drawn.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { interleave } from '../../edge-evidence/bench/bench-run.ts';
import { drawChart } from '../../edge-evidence/bench/chart.ts';
import { atLeast, atMost, makeFigure, median } from '../../edge-evidence/bench/figure.ts';
import { countCalls, readCalls } from '../../edge-evidence/bench/strace.ts';
import { printNumber, printTable } from '../../edge-evidence/bench/table.ts';
import { accepts, type Schema } from '../core/json-schema.ts';
import { sampleResult } from './bench-samples.ts';

const schemaFile = join(import.meta.dirname, '../../schema/bench.schema.json');
const schema = JSON.parse(readFileSync(schemaFile, 'utf8')) as Schema;
const written = JSON.parse(JSON.stringify(sampleResult)) as Record<string, unknown>;

t.test('the median is the middle sample, or between the two middle ones', async (t) => {
  t.equal(median([5, 1, 100]), 5);
  t.equal(median([4, 1, 2, 100]), 3);
  t.equal(median([7]), 7);
  t.ok(Number.isNaN(median([])));
});

t.test('a figure is the median of its samples beside that of its floors', async (t) => {
  const figure = makeFigure({ name: 'x', unit: 'ms', values: [30, 10, 20], floors: [8, 10, 12], note: 'how' });
  t.match(figure, { value: 20, floor: 10, ratio: 2, difference: 10, budget: null, isMet: null, note: 'how' });
  t.same(figure.samples, { value: [30, 10, 20], floor: [8, 10, 12] });
  t.match(makeFigure({ name: 'x', unit: 'ms', values: [1] }), { floor: null, ratio: null, difference: null });
});

t.test('a budget is worked out with the floor of the same run, and its own bound is within it', async (t) => {
  const withValue = (value: number) =>
    makeFigure({
      name: 'x',
      unit: 'ms',
      values: [value],
      floors: [10],
      budget: (floor) => atMost(floor * 1.5, 'rule'),
    });
  t.same(withValue(15).budget, { rule: 'rule', bound: 'at-most', limit: 15 });
  t.equal(withValue(15).isMet, true);
  t.equal(withValue(15.01).isMet, false);
  const yielding = (value: number) =>
    makeFigure({ name: 'x', unit: 'steps/s', values: [value], budget: () => atLeast(100, 'rule') }).isMet;
  t.same([yielding(99), yielding(100), yielding(101)], [false, true, true]);
});

t.test('a budget that asks for the best peer is none where no peer was measured', async (t) => {
  const budget = (_: number, values: readonly number[]) => atLeast(Math.max(...values) * 4, 'rule');
  const alone = makeFigure({ name: 'x', unit: 'steps/s', values: [500], budget });
  t.match(alone, { budget: null, isMet: null });
  const peers = [
    { name: 'a', values: [90, 110, 100] },
    { name: 'b', values: [120] },
  ];
  const beside = makeFigure({ name: 'x', unit: 'steps/s', values: [500], peers, budget });
  t.match(beside, { budget: { limit: 480 }, isMet: true, peers: [{ value: 100 }, { value: 120 }] });
});

t.test('samples that are no number are left out, and a figure of none is refused', async (t) => {
  const figure = makeFigure({ name: 'x', unit: 'ms', values: [1, Number.NaN], floors: [Number.NaN] });
  t.match(figure, { value: 1, floor: null });
  t.throws(() => makeFigure({ name: 'x', unit: 'ms', values: [Number.NaN] }), { code: 'unavailable' });
});

t.test('rounds take one sample of each, every second one the other way about', async (t) => {
  const order: string[] = [];
  const note = (name: string) => async () => order.push(name);
  const samples = await interleave(3, { a: note('a'), b: note('b') });
  t.equal(order.join(''), 'abbaab');
  t.same(samples, { a: [1, 4, 5], b: [2, 3, 6] });
});

t.test('system calls are read from a summary with and without errors, the total left out', async (t) => {
  const summary = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 90.00    0.000720           8        90           fdatasync
 10.00    0.000080           8        10         2 futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.000800           8       100         2 total
`;
  t.same(
    [...readCalls(summary)],
    [
      ['fdatasync', 90],
      ['futex', 10],
    ],
  );
  t.equal(countCalls(summary), 100);
  t.equal(countCalls(''), 0);
});

t.test('what is written is what the schema says', async (t) => {
  t.ok(accepts(schema, written));
  const [figure] = written['figures'] as readonly Record<string, unknown>[];
  const altered: readonly object[] = [
    { schema: 'qinglong/bench@v2' },
    { figures: [{ ...figure, value: null }] },
    { figures: [{ ...figure, value: '1' }] },
    { figures: [{ ...figure, profile: 'cluster' }] },
    { figures: [{ ...figure, budget: { rule: 'x', bound: 'near', limit: 1 } }] },
    { figures: [{ ...figure, more: 1 }] },
    { parameters: { repeats: 0, only: [], profiles: ['edge'], peers: true } },
    { startedAt: 'today' },
  ];
  for (const change of altered) {
    t.notOk(accepts(schema, { ...written, ...change }), JSON.stringify(change).slice(0, 80));
  }
  for (const key of Object.keys(written)) {
    const { [key]: _, ...others } = written;
    t.notOk(accepts(schema, others), `without ${key}`);
  }
});

t.test('the table tells value, floor, budget and peers of each figure, and what was not measured', async (t) => {
  const table = printTable(sampleResult);
  t.match(
    table,
    /^edge +idle VmRSS with 10,000 finished runs +59,000 KiB +50,500 +<= 56,644 \(floor \+ 6 MiB\) +NOT MET$/m,
  );
  t.match(table, /^edge +written per sequential step +38\.3 KiB +12\.9 +<= 40 \(40 KiB\) +met +alpha 97, be<ta> 105$/m);
  t.match(table, /^ +a figure of its own +0 calls$/m);
  t.match(table, /^not measured: syncs: strace is not here$/m);
  t.match(table, /^4 figures, 1 within their budget, 2 not$/m);
  t.match(table, /ext4 \(rw,noatime\); load before 0\.25$/m);
  const inMemory = { ...sampleResult, environment: { ...sampleResult.environment, isMemory: true } };
  t.match(printTable(inMemory), /WHICH IS MEMORY/);
});

t.test('numbers have the places that say something', async (t) => {
  t.same([1234567, 123.45, 12.345, 1.2345, 0, 0.004].map(printNumber), ['1,234,567', '123', '12.3', '1.23', '0', '0']);
});

t.test(
  'the chart has a bar for each of product, peers and floor, and no figure that it has no panel for',
  async (t) => {
    const chart = drawChart(sampleResult);
    t.equal(chart, drawChart(JSON.parse(JSON.stringify(sampleResult))));
    const count = (pattern: RegExp) => [...chart.matchAll(pattern)].length;
    t.equal(count(/<rect class="product"/g), 3);
    t.equal(count(/<rect class="peer"/g), 4);
    t.equal(count(/<rect class="floor"/g), 3);
    t.match(chart, /57\.6<\/text>/, 'KiB are drawn as MiB');
    t.match(chart, /be&lt;ta&gt;/);
    t.notMatch(chart, /a figure of its own|NaN|Infinity|undefined|<script/);
    t.match(chart, /prefers-color-scheme: dark/);
  },
);

t.test('the longest bar of a panel is the largest value, and the others are in proportion', async (t) => {
  const lengthOf = (chart: string, kind: string) =>
    [...chart.matchAll(new RegExp(`<rect class="${kind}" x="\\d+" y="\\d+" width="([\\d.]+)"`, 'g'))].map((found) =>
      Number(found[1]),
    );
  const chart = drawChart({ ...sampleResult, figures: sampleResult.figures.slice(1, 2) });
  const [product = 0] = lengthOf(chart, 'product');
  const [alpha = 0, beta = 0] = lengthOf(chart, 'peer');
  t.ok(Math.abs(product / beta - 38.25 / 105) < 0.01, `${product} of ${beta}`);
  t.ok(Math.abs(alpha / beta - 97 / 105) < 0.01);
});

t.test('a floor far beyond everything else is cut off, so that the others can be told apart', async (t) => {
  const chart = drawChart({ ...sampleResult, figures: sampleResult.figures.slice(2, 3) });
  t.match(chart, /<rect class="product" x="\d+" y="\d+" width="432"/);
  t.equal([...chart.matchAll(/<path class="back"/g)].length, 1);
  t.match(chart, />80,000<\/text>/);
});

t.test('a result without any figure of a panel is a chart without it', async (t) => {
  const chart = drawChart({ ...sampleResult, figures: [] });
  t.match(chart, /^<svg [\s\S]*<\/svg>\n$/);
  t.notMatch(chart, /class="title"|-Infinity/);
});
