import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Scene, testExample } from './example-run.ts';

const routeHead = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n';
// 192.0.2.1 through eth1 in a /24, as a little-endian and as a big-endian machine shows it.
const littleEndian = `${routeHead}eth1\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n`;
const bigEndian = `${routeHead}eth1\t00000000\tC0000201\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth1\tC0000200\t00000000\t0001\t0\t0\t0\tFFFFFF00\t0\t0\t0\n`;
const arpHead = 'IP address       HW type     Flags       HW address            Mask     Device\n';
const arpEntry = '192.0.2.1        0x1         0x2         02:00:00:00:00:01     *        eth1\n';

type Machine = { readonly route?: string; readonly arp?: string; readonly carriers?: Readonly<Record<string, string>> };

/** Files as a machine in some state has them under /proc and /sys, and no pings: they would ask the real network. */
function machineOf(scene: Scene, name: string, machine: Machine): Readonly<Record<string, string>> {
  const root = join(scene.directory, name);
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  write('proc/net/route', machine.route ?? routeHead);
  write('proc/net/arp', machine.arp ?? arpHead);
  for (const [device, carrier] of Object.entries(machine.carriers ?? {})) {
    write(`sys/class/net/${device}/carrier`, carrier);
  }
  return {
    STATE_DIR: join(scene.directory, 'state'),
    PROC_DIR: join(root, 'proc'),
    SYS_DIR: join(root, 'sys'),
    PING: 'no',
  };
}

testExample('on this very machine every step succeeds and a decision is made', 'wan-watch', async (t, scene) => {
  const state = join(scene.directory, 'state');
  const ends = scene.runWorkflow({ STATE_DIR: state });
  for (const [stepKey, { status, output }] of ends) {
    t.equal(status, 0, `${stepKey}: ${output}`);
  }
  t.equal(ends.size, 5);
  t.match(ends.get('decide')!.output, /^decision: (up|degraded|down|unknown) \(/m);
  t.match(readFileSync(join(state, 'state'), 'utf8'), /^(up|degraded|down|unknown) /);
  t.strictSame(readdirSync(state).sort(), ['changes.log', 'state'], 'the work of the run is removed');
});

testExample('the gateway is read from the route table of either byte order', 'wan-watch', async (t, scene) => {
  for (const [name, route] of [
    ['little', littleEndian],
    ['big', bigEndian],
  ] as const) {
    const env = machineOf(scene, name, { route, arp: arpHead + arpEntry });
    const { status, output } = scene.runStep('gateway', env);
    t.equal(status, 0, output);
    t.equal(output, 'gateway: up (192.0.2.1 answered lately, says the ARP table)\n');
  }
});

testExample('the decision follows the quorum: up, degraded, down, unknown', 'wan-watch', async (t, scene) => {
  const machines: Readonly<Record<string, Machine>> = {
    up: { route: littleEndian, arp: arpHead + arpEntry, carriers: { lo: '1', eth1: '1' } },
    degraded: { route: littleEndian, carriers: { eth1: '1' } },
    down: { route: littleEndian, carriers: { eth1: '0' } },
    unknown: { route: littleEndian },
  };
  for (const [state, machine] of Object.entries(machines)) {
    const env = { ...machineOf(scene, state, machine), QL_RUN_ID: state };
    const ends = scene.runWorkflow(env);
    t.match(ends.get('decide')!.output, `decision: ${state} (`);
    t.equal(ends.get('report')!.status, 0);
  }
  const log = readFileSync(join(scene.directory, 'state/changes.log'), 'utf8').trim().split('\n');
  t.match(log, [/ none -> up \(/, / up -> degraded \(/, / degraded -> down \(/, / down -> unknown \(/]);
});

testExample(
  'without a default route the gateway is down, and the link is looked for on lo',
  'wan-watch',
  async (t, scene) => {
    const env = machineOf(scene, 'alone', { carriers: { lo: '1' } });
    t.equal(scene.runStep('gateway', env).output, 'gateway: down (there is no default route for IPv4)\n');
    t.equal(scene.runStep('link', env).output, 'link: up (lo has a carrier)\n');
  },
);

testExample(
  'a log line is written on a change alone, and the log keeps its last lines',
  'wan-watch',
  async (t, scene) => {
    const up = { route: littleEndian, arp: arpHead + arpEntry, carriers: { eth1: '1' } };
    const env = machineOf(scene, 'up', up);
    scene.runWorkflow(env);
    const { output } = scene.runWorkflow({ ...env, QL_RUN_ID: 'run-2' }).get('report')!;
    t.match(output, /^still up \(/);
    const log = join(scene.directory, 'state/changes.log');
    t.equal(readFileSync(log, 'utf8').trim().split('\n').length, 1);
    writeFileSync(log, 'old line\n'.repeat(50));
    const down = machineOf(scene, 'down', { route: littleEndian, carriers: { eth1: '0' } });
    scene.runWorkflow({ ...down, LOG_LINES: '10' });
    const lines = readFileSync(log, 'utf8').trim().split('\n');
    t.equal(lines.length, 10);
    t.match(lines.at(-1), / up -> down \(/);
  },
);

testExample(
  'the run fails in the states named by FAIL_WHEN, after the state is kept',
  'wan-watch',
  async (t, scene) => {
    const env = machineOf(scene, 'down', { route: littleEndian, carriers: { eth1: '0' } });
    const { status, output } = scene.runWorkflow({ ...env, FAIL_WHEN: 'degraded down' }).get('report')!;
    t.equal(status, 1);
    t.match(output, /error: the line is down/);
    t.match(readFileSync(join(scene.directory, 'state/state'), 'utf8'), /^down /);
  },
);
