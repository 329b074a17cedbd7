// `npm run bench` from its command line to its result, with the quickest of its rows.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { BenchResult } from '../../edge-evidence/bench/result.ts';
import { findProcessesOf } from '../../edge-evidence/processes.ts';
import { accepts, type Schema } from '../core/json-schema.ts';

const root = join(import.meta.dirname, '../..');
const schema = JSON.parse(readFileSync(join(root, 'schema/bench.schema.json'), 'utf8')) as Schema;
const program = join(root, 'edge-evidence/bench.ts');

function bench(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
}

function makeFolder(t: { teardown(action: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

t.test('rows are measured into a file, which is printed and drawn again', async (t) => {
  const folder = makeFolder(t);
  const scratch = join(folder, 'scratch');
  const out = join(folder, 'result.json');
  const few = ['--only', 'size', '--only', 'commits', '--repeats', '1', '--profile', 'standalone'];
  const measured = bench(...few, '--scratch', scratch, '--out', out);
  t.equal(measured.status, 0, measured.stderr);
  t.equal(measured.stdout, '');
  const result = JSON.parse(readFileSync(out, 'utf8')) as BenchResult;
  t.ok(accepts(schema, result), 'as the schema says');
  t.same(result.skipped, []);
  t.same(
    result.figures.map(({ row }) => row),
    ['size', 'commits', 'commits'],
  );
  t.equal(result.figures[0]?.value, statSync(join(root, 'dist/qinglong-edge.cjs')).size);
  t.equal(statSync(out).mode & 0o777, 0o600);
  t.same(readdirSync(scratch), [], 'nothing is left in the scratch');

  const chart = join(folder, 'chart.svg');
  const again = bench('--from', out, '--chart', chart);
  t.equal(again.status, 0, again.stderr);
  t.ok(measured.stderr.endsWith(again.stderr), 'the same table');
  t.match(readFileSync(chart, 'utf8'), /^<svg /);

  const refused = bench('--only', 'size', '--out', out);
  t.equal(refused.status, 2);
  t.match(refused.stderr, /^--out .* exists; it is not replaced\nusage: npm run bench/);
});

t.test('a bench that is told to end takes what it had started and made with it', async (t) => {
  const scratch = join(makeFolder(t), 'scratch');
  const child = spawn(process.execPath, [program, '--only', 'killed', '--repeats', '1', '--scratch', scratch], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'close');
  await once(child.stderr, 'data');
  child.kill('SIGTERM');
  t.same(await ended, [143, null]);
  t.same(readdirSync(scratch), []);
  t.same(findProcessesOf(scratch), []);
});

t.test('what cannot be asked is told before anything is measured', async (t) => {
  const { status, stderr } = bench('--only', 'none', '--repeats', '0', '--profile', 'cluster');
  t.equal(status, 2);
  t.match(stderr, /^--repeats is a number from 1 on; --only none: the rows are size, .*; --profile is /);
});
