// `npm run ha`: a small drill on real servers from its command line to its report, and what makes a gate pass.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, chmodSync, constants, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { allGates, gates } from '../../edge-evidence/ha/gates.ts';
import { openLink, socketName } from '../../edge-evidence/ha/link.ts';
import { Scoreboard } from '../../edge-evidence/ha/scoreboard.ts';
import { decodeLine, encodeLine } from '../../edge-evidence/ha/wire.ts';
import { clusterModes, printReport, type Report } from '../../edge-evidence/report.ts';
import { verifyReport } from '../../edge-evidence/verify-report.ts';
import { sampleReport, scenario } from './report-samples.ts';

const root = join(import.meta.dirname, '../..');
const program = join(root, 'edge-evidence/ha.ts');

/** In memory where that can be had: a server's syncs are what most of the time would go to. */
function findParent(): string {
  try {
    accessSync('/dev/shm', constants.W_OK);
    return '/dev/shm';
  } catch {
    return tmpdir();
  }
}

t.test('a cluster that loses its primary keeps everything that it acknowledged, gate by gate', async (t) => {
  const scratch = mkdtempSync(join(findParent(), 'drill-'));
  // The servers run as somebody else where this is root.
  chmodSync(scratch, 0o711);
  const reports = mkdtempSync(join(tmpdir(), 'reports-'));
  t.teardown(() => {
    rmSync(scratch, { recursive: true, force: true });
    rmSync(reports, { recursive: true, force: true });
  });
  const out = join(reports, 'failover.json');
  const bin = process.env['QL_TEST_PG_BIN'];
  const chosen = bin === undefined ? [] : ['--pg-bin', bin];
  const args = ['--runs', '15', '--scratch', scratch, '--out', out, ...chosen];
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  t.equal(status, 0, `${stdout}${stderr}`);
  const bytes = readFileSync(out);
  const { report, faults, failed } = verifyReport(bytes);
  t.same(faults, []);
  t.same(failed, []);
  t.equal(report?.kind, 'failover');
  t.equal(report?.scenarios.length, allGates.length);
  t.match(stdout, /genuine: failover of .* passed, a quick sample/);
  t.same(readdirSync(scratch), []);
});

t.test('what cannot be meant is said before anything is started', async (t) => {
  const { status, stderr } = spawnSync(process.execPath, [program, '--runs', '0'], { encoding: 'utf8' });
  t.equal(status, 2);
  t.match(stderr, /--runs is a whole number from 1/);
  const missing = ['--pg-bin', '/nowhere', '--bundle', program, '--scratch', t.testdir({}), '--runs', '1'];
  const nowhere = spawnSync(process.execPath, [program, ...missing], { encoding: 'utf8' });
  t.equal(nowhere.status, 1);
  t.match(nowhere.stderr, /stopped: .*there is no \/nowhere\/postgres: npm install, or name the folder/);
});

function failoverReport(change: { readonly without?: string } = {}): Report {
  const scenarios = allGates
    .filter(({ name }) => name !== change.without)
    .map((gate) => scenario({ ...gate, failures: gate.isControl ? ['it is gone'] : [], figures: { tried: 1 } }));
  return sampleReport({ kind: 'failover', scenarios, modes: clusterModes });
}

t.test('a report of a failover without one of the gates, or one of the controls, is refused', async (t) => {
  t.same(verifyReport(Buffer.from(printReport(failoverReport()))).faults, []);
  for (const { name, mode } of allGates) {
    const { faults } = verifyReport(Buffer.from(printReport(failoverReport({ without: name }))));
    t.match(faults.join('\n'), `there is nothing about ${name}, ${mode}`);
  }
});

t.test('a gate that was not come to has not passed, and neither has a control', async (t) => {
  const board = new Scoreboard();
  board.at(gates.kept).take([]);
  board.at(gates.receipts).take(['another one']);
  const scenarios = board.scenarios('no server');
  t.same(
    scenarios.filter(({ passed }) => passed).map(({ name }) => name),
    [gates.kept.name],
  );
  t.same(scenarios.find(({ name }) => name === gates.receipts.name)?.failures, ['another one']);
  const untried = scenarios.filter(({ figures }) => figures['tried'] === 0);
  t.equal(untried.length, allGates.length - 2);
  t.ok(untried.every(({ failures }) => failures[0] === 'the drill did not come this far: no server'));
});

t.test('a link carries what both ends say until it is cut, and nobody is let in before it is healed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'link-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const [near, far] = [mkdtempSync(join(folder, 'near-')), mkdtempSync(join(folder, 'far-'))];
  const echo = createServer((socket) => socket.on('error', () => {}).pipe(socket));
  echo.listen(join(far, socketName));
  await once(echo, 'listening');
  t.teardown(() => echo.close());
  const link = await openLink(near, far);
  t.teardown(() => link.close());
  const say = async () => {
    const socket = connect(join(near, socketName)).setEncoding('utf8');
    const ended = new Promise<null>((resolve) => socket.on('error', () => {}).once('close', () => resolve(null)));
    const heard = new Promise<string>((resolve) => socket.once('data', resolve));
    socket.write('here');
    return { said: await Promise.race([heard, ended]), socket, ended };
  };
  const first = await say();
  t.equal(first.said, 'here');
  link.cut();
  t.equal(await first.ended, null);
  t.equal((await say()).said, null);
  link.heal();
  const last = await say();
  t.equal(last.said, 'here');
  last.socket.destroy();
});

t.test('records go over the wire as they are, maps within them too', async (t) => {
  const value = { steps: new Map([['a', { list: [new Map(), null, 'é\n'] }]]), number: 1 };
  t.notMatch(encodeLine(value), '\n');
  t.same(decodeLine(encodeLine(value)), value);
});
