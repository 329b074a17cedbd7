import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { testExample } from './example-run.ts';

const published = [
  'ads.example.com',
  'adserver-1.example.net',
  'adserver-2.example.net',
  'banner.example.com',
  'beacon.example.org',
  'c2.dropper.example',
  'collector.example.org',
  'dropper.example',
  'exploit-kit.example.org',
  'from-windows.example.com',
  'metrics.example.com',
  'miner.example.net',
  'phishing-login.example',
  'pixel.ads.example.org',
  'popup.example.net',
  't.co-tracker.example',
  'telemetry.example.com',
  'telemetry.example.net',
  'update-flash.example',
  'video-ads.example.org',
  'www.popup.example.net',
  'xn--tracker-9xa.example',
];

testExample('three lists of three formats become one published list', 'blocklist', async (t, scene) => {
  const out = join(scene.directory, 'out');
  const ends = scene.runWorkflow({ OUT_DIR: out });
  for (const [stepKey, { status, output }] of ends) {
    t.equal(status, 0, `${stepKey}: ${output}`);
  }
  t.equal(ends.size, 6);
  t.match(ends.get('ads')!.output, /^ads: 11 names, 2 entries of lists\/ads\.hosts not usable$/m);
  t.match(ends.get('merge')!.output, 'merged: 22 names (26 read, 1 twice, 3 allowed)');
  t.equal(readFileSync(join(out, 'blocklist.hosts'), 'utf8'), published.map((name) => `0.0.0.0 ${name}\n`).join(''));
  t.equal(statSync(join(out, 'blocklist.hosts')).mode & 0o777, 0o644, 'a resolver of another user may read it');
  t.strictSame(readdirSync(out).sort(), ['blocklist.hosts', 'names'], 'the work of the run is removed');
});

testExample('a second run publishes nothing new, and does not write the list again', 'blocklist', async (t, scene) => {
  const out = join(scene.directory, 'out');
  scene.runWorkflow({ OUT_DIR: out });
  const before = statSync(join(out, 'blocklist.hosts'), { bigint: true });
  const { output } = scene.runWorkflow({ OUT_DIR: out, QL_RUN_ID: 'run-2' }).get('publish')!;
  t.match(output, 'changes: 0 added, 0 removed');
  t.match(output, 'unchanged: ');
  const after = statSync(join(out, 'blocklist.hosts'), { bigint: true });
  t.strictSame([after.ino, after.mtimeNs], [before.ino, before.mtimeNs]);
});

testExample(
  'a list that shrank too much, or lacks what is expected, is not published',
  'blocklist',
  async (t, scene) => {
    const out = join(scene.directory, 'out');
    scene.runWorkflow({ OUT_DIR: out });
    const small = join(scene.directory, 'small.hosts');
    writeFileSync(small, '0.0.0.0 only.example.com\n');
    const env = { OUT_DIR: out, QL_RUN_ID: 'run-2' };
    t.equal(scene.runStep('ads', { ...env, SOURCE: small }).status, 0);
    t.equal(scene.runStep('merge', env).status, 0);
    const { status, output } = scene.runStep('check', env);
    t.equal(status, 1);
    t.match(output, /only 1 names; at least 20 are expected/);
    t.match(output, /dropper\.example is missing/);
    t.match(output, /1 names are less than 50 % of the 22 published before/);
    t.match(output, /6 problems; the published list stays as it is/);
    t.equal(readFileSync(join(out, 'names'), 'utf8').trim().split('\n').length, 22);
  },
);

testExample(
  'a source that is missing, empty or of another format fails its step alone',
  'blocklist',
  async (t, scene) => {
    const out = join(scene.directory, 'out');
    const [empty, binary] = [join(scene.directory, 'empty'), join(scene.directory, 'binary')];
    writeFileSync(empty, '');
    writeFileSync(binary, Buffer.from('\u0000\u0001<html>\u0000not a list</html>'));
    for (const [source, rule] of [
      ['lists/gone.hosts', /cannot be read/],
      [empty, /is empty/],
      [binary, /holds no host name in the format hosts/],
    ] as const) {
      const { status, output } = scene.runStep('ads', { OUT_DIR: out, SOURCE: source });
      t.equal(status, 1, source);
      t.match(output, rule);
    }
    const ends = scene.runWorkflow({ OUT_DIR: out, SOURCE: 'lists/gone.hosts' });
    t.strictSame([...ends.keys()].sort(), ['ads', 'malware', 'trackers'], 'nothing that needs them has run');
  },
);

testExample('the list is published in the format that a resolver takes', 'blocklist', async (t, scene) => {
  const out = join(scene.directory, 'out');
  scene.runWorkflow({ OUT_DIR: out, FORMAT: 'dnsmasq' });
  t.match(readFileSync(join(out, 'blocklist.dnsmasq'), 'utf8'), /^address=\/ads\.example\.com\/#$/m);
  const { status, output } = scene.runStep('publish', { OUT_DIR: out, FORMAT: 'bind' });
  t.equal(status, 1);
  t.match(output, /may be hosts, dnsmasq or domains/);
});

testExample('a link in place of the output directory is refused', 'blocklist', async (t, scene) => {
  const elsewhere = join(scene.directory, 'elsewhere');
  mkdirSync(elsewhere);
  symlinkSync(elsewhere, join(scene.directory, 'out'));
  const { status, output } = scene.runStep('ads', { OUT_DIR: join(scene.directory, 'out') });
  t.equal(status, 1);
  t.match(output, /is a link/);
  t.notOk(existsSync(join(elsewhere, 'run-run-1')));
});
