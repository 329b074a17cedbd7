// What a firmware builder does: the evidence bundle and the product's, in an empty folder, with nothing but Node.js.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

const dist = join(import.meta.dirname, '../../dist');
const names = ['qinglong-edge-evidence.cjs', 'qinglong-edge.cjs'] as const;
const folder = t.testdir({ scratch: {} });
for (const name of names) {
  copyFileSync(join(dist, name), join(folder, name));
}

spawnSync('mkfifo', [join(folder, 'fifo')]);

function evidence(...args: readonly string[]) {
  const env = { PATH: process.env['PATH'] };
  return spawnSync(process.execPath, [names[0], ...args], { cwd: folder, encoding: 'utf8', env });
}

t.test('alone in an empty folder it collects a report, which it then finds genuine', async (t) => {
  const common = ['--bundle', names[1], '--scratch', 'scratch', '--quick', '--mode', 'delete-extra'];
  const collected = evidence('footprint', ...common, '--out', 'report.json');
  t.equal(collected.status, 0, collected.stderr);
  t.match(collected.stdout, /footprint: 3 of 3 scenarios passed/);
  t.same(readdirSync(join(folder, 'scratch')), []);
  t.equal(statSync(join(folder, 'report.json')).mode & 0o777, 0o600);
  const verified = evidence('verify-report', 'report.json', '--bundle', names[1]);
  t.equal(verified.status, 0, verified.stderr);
  t.match(verified.stdout, /^genuine: footprint of .*3 of 3 passed, a quick sample/);

  const again = evidence('footprint', ...common, '--out', 'report.json');
  t.equal(again.status, 2);
  t.match(again.stderr, /report.json is there already and stays: give another name with --out/);
});

t.test('a report that was altered is refused with 5, one about another bundle as well', async (t) => {
  const text = readFileSync(join(folder, 'report.json'), 'utf8');
  writeFileSync(join(folder, 'altered.json'), text.replace('"passed": 3', '"passed": 4'));
  const altered = evidence('verify-report', 'altered.json');
  t.equal(altered.status, 5);
  t.match(altered.stderr, /altered.json is refused:\n {2}its contents are not those of its digest/);
  const other = evidence('verify-report', 'report.json', '--bundle', names[0]);
  t.equal(other.status, 5);
  t.match(other.stderr, /it is about another bundle/);
});

t.test('whatever it cannot do it says in one line, with what to do', async (t) => {
  const cases: readonly (readonly [RegExp, ...(readonly string[])])[] = [
    [/a command is missing: crash-window, faults/],
    [/there is no `crash`: crash-window, faults/, 'crash'],
    [/--bundle is missing: the file qinglong-edge.cjs/, 'faults'],
    [/there is no .*gone.cjs: give the file/, 'faults', '--bundle', 'gone.cjs', '--scratch', 'scratch', '--out', 'x'],
    [/gone is no folder: make it first/, 'faults', '--bundle', names[1], '--scratch', 'gone', '--out', 'x'],
    [/there is no mode wal: delete-extra/, 'faults', '--bundle', names[1], '--scratch', 'scratch', '--mode', 'wal'],
    [/--seed x is no whole number/, 'faults', '--bundle', names[1], '--scratch', 'scratch', '--seed', 'x'],
    [
      /an attestation has both/,
      'faults',
      '--bundle',
      names[1],
      '--scratch',
      'scratch',
      '--out',
      'x',
      '--power-cut-by',
      'me',
    ],
    [/Unknown option '--fast'/, 'faults', '--fast'],
    [/cannot read gone.json/, 'verify-report', 'gone.json'],
    [/cannot read fifo: it is no regular file/, 'verify-report', 'fifo'],
    [/verify-report takes one FILE/, 'verify-report'],
  ];
  mkdirSync(join(folder, 'elsewhere'));
  for (const [message, ...args] of cases) {
    const { status, stderr } = evidence(...args);
    t.equal(status, 2, args.join(' '));
    t.match(stderr, message);
    t.equal(stderr.trim().split('\n').length, 1, stderr);
  }
  const notProduct = evidence('footprint', '--bundle', names[0], '--scratch', 'scratch', '--out', 'x');
  t.equal(notProduct.status, 1);
  t.match(notProduct.stderr, /does not say its version: give the bundle qinglong-edge.cjs/);
  const waiting = evidence('verify-report', 'report.json', '--bundle', 'fifo');
  t.equal(waiting.status, 1);
  t.match(waiting.stderr, /cannot read the bundle fifo: it is no regular file/);
  t.match(evidence('--version').stdout, /^qinglong-edge-evidence \d+\.\d+\.\d+, Node\.js/);
  t.match(evidence('help').stdout, /crash-window .*\n {2}faults/);
});
