import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type Scene, testExample } from './example-run.ts';

const line = 'a line of a log, as long as lines of logs are: fifty or so\n';

function outputsOf(ends: ReturnType<Scene['runWorkflow']>): string {
  return [...ends].map(([stepKey, { status, output }]) => `${stepKey} ${status}\n${output}`).join('');
}

/** Lines of a log with all of its generations, plain and compressed. */
function countLines(directory: string): number {
  return readdirSync(directory).reduce((sum, name) => {
    const bytes = readFileSync(join(directory, name));
    return sum + (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString().split('\n').length - 1;
  }, 0);
}

testExample(
  'without a directory of logs a sample is made, rotated, compressed and verified',
  'log-prune',
  async (t, scene) => {
    const state = join(scene.directory, 'state');
    const ends = scene.runWorkflow({ STATE_DIR: state });
    t.strictSame(
      [...ends.values()].map(({ status }) => status),
      [0, 0, 0, 0, 0],
      outputsOf(ends),
    );
    const sample = join(state, 'sample');
    const names = [
      'firewall.log',
      'firewall.log.1.gz',
      'guest wifi.log',
      'guest wifi.log.1.gz',
      'system.log',
      'system.log.1.gz',
    ];
    t.strictSame(readdirSync(sample).sort(), names);
    t.equal(countLines(sample), 1_200);
    t.match(ends.get('verify')!.output, 'verified: 1200 lines before = 1200 kept + 0 pruned');
    t.strictSame(readdirSync(state), ['sample'], 'the work of the run is removed');
  },
);

testExample('the newest generations are kept, and every line is accounted for', 'log-prune', async (t, scene) => {
  const state = join(scene.directory, 'state');
  for (let run = 1; run <= 5; run += 1) {
    const ends = scene.runWorkflow({ STATE_DIR: state, QL_RUN_ID: `run-${run}`, KEEP: '2' });
    t.equal(ends.get('verify')?.status, 0, outputsOf(ends));
  }
  const generations = readdirSync(join(state, 'sample')).filter((name) => name.startsWith('system.log.'));
  t.strictSame(generations.sort(), ['system.log.4.gz', 'system.log.5.gz']);
  t.equal(countLines(join(state, 'sample')), 3 * 2 * 400);
});

testExample(
  'logs of a configured directory are rotated at their bound, the others stay',
  'log-prune',
  async (t, scene) => {
    const logs = join(scene.directory, 'logs');
    mkdirSync(logs);
    writeFileSync(join(logs, 'large $(x).log'), line.repeat(1_000));
    writeFileSync(join(logs, 'small.log'), line);
    writeFileSync(join(logs, 'large $(x).log.9.gz'), gzipSync(line.repeat(10)));
    writeFileSync(join(logs, 'notes.txt'), 'not a log\n');
    const env = { STATE_DIR: join(scene.directory, 'state'), LOG_DIR: logs };
    const ends = scene.runWorkflow(env);
    t.equal(ends.get('verify')?.status, 0, outputsOf(ends));
    t.strictSame(readdirSync(logs).sort(), [
      'large $(x).log',
      'large $(x).log.10.gz',
      'large $(x).log.9.gz',
      'notes.txt',
      'small.log',
    ]);
    t.equal(statSync(join(logs, 'large $(x).log')).size, 0);
    t.equal(readFileSync(join(logs, 'small.log'), 'utf8'), line);
    t.equal(gunzipSync(readFileSync(join(logs, 'large $(x).log.10.gz'))).toString(), line.repeat(1_000));
    const again = scene.runWorkflow({ ...env, QL_RUN_ID: 'run-2' });
    t.match(again.get('rotate')!.output, 'rotated: 0 logs, 2 below 16384 bytes');
    t.match(again.get('compress')!.output, 'compressed: 0 files, 0 -> 0 bytes');
  },
);

testExample(
  'a compression that was killed half-way is done again, and no line counts twice',
  'log-prune',
  async (t, scene) => {
    const logs = join(scene.directory, 'logs');
    mkdirSync(logs);
    writeFileSync(join(logs, 'a.log'), line);
    writeFileSync(join(logs, 'a.log.1'), line.repeat(20));
    writeFileSync(join(logs, 'a.log.1.gz'), gzipSync(line.repeat(20)));
    writeFileSync(join(logs, 'a.log.2'), line.repeat(30));
    writeFileSync(join(logs, 'a.log.2.gz.new'), 'half');
    const ends = scene.runWorkflow({ STATE_DIR: join(scene.directory, 'state'), LOG_DIR: logs });
    t.match(ends.get('verify')?.output, 'verified: 51 lines before = 51 kept + 0 pruned', outputsOf(ends));
    t.strictSame(readdirSync(logs).sort(), ['a.log', 'a.log.1.gz', 'a.log.2.gz']);
  },
);

testExample(
  'a file that cannot be read back, and lines that are lost, fail the check',
  'log-prune',
  async (t, scene) => {
    const logs = join(scene.directory, 'logs');
    mkdirSync(logs);
    writeFileSync(join(logs, 'a.log'), line.repeat(100));
    writeFileSync(join(logs, 'a.log.1.gz'), 'no gzip at all');
    const env = { STATE_DIR: join(scene.directory, 'state'), LOG_DIR: logs };
    t.equal(scene.runStep('prepare', env).status, 0);
    writeFileSync(join(logs, 'a.log'), line.repeat(90));
    const { status, output } = scene.runStep('verify', env);
    t.equal(status, 1);
    t.match(output, /10 of 100 lines are lost/);
    t.match(output, /a\.log\.1\.gz cannot be read back/);
    t.match(output, /error: 2 problems in /);
  },
);

testExample('a directory of logs that does not exist is refused', 'log-prune', async (t, scene) => {
  const env = { STATE_DIR: join(scene.directory, 'state'), LOG_DIR: join(scene.directory, 'nowhere') };
  const { status, output } = scene.runStep('prepare', env);
  t.equal(status, 1);
  t.match(output, /is no directory/);
});
