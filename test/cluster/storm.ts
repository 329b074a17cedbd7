// Three runtimes carry runs of a mixed package while one of them is killed every second, connections are cut, and
// answers to COMMIT are dropped; then what the commands did is compared with what is recorded.
//   npm run storm -- --count 2000 --seed 1
import { parseArgs } from 'node:util';
import { createRandom } from '../../edge-evidence/random.ts';
import { type Claim, compareMixedRuns } from '../../edge-evidence/stress/compare.ts';
import { mixedWorkflows, packageName, writeMixedPackage } from '../../edge-evidence/stress/mixed-package.ts';
import { measureTrace, readTrace } from '../../edge-evidence/stress/trace.ts';
import { openProxy, type Proxy as Way } from '../store/postgres/proxy.ts';
import { bundledProgram, Ground, type Runtime } from './ground.ts';

export type Storm = {
  readonly count: number;
  readonly seed: number;
  readonly runtimes: number;
  readonly killEveryMs: number;
  readonly concurrency: number;
  /** The shipped file instead of the sources, which take a second longer to start. */
  readonly isBundled: boolean;
  /** What runs after that is told as a difference. */
  readonly secondsMax: number;
  readonly log: (line: string) => void;
};

export type StormResult = {
  readonly runs: number;
  readonly commands: number;
  readonly kills: number;
  readonly cuts: number;
  readonly dropped: number;
  readonly seconds: number;
  readonly differences: readonly string[];
};

export async function runStorm(storm: Storm): Promise<StormResult> {
  const ground = await Ground.open(...(storm.isBundled ? [bundledProgram] : []));
  const beganMs = performance.now();
  try {
    const site = { root: ground.root, data: '', run: '', profile: 'standalone' as const };
    const { code } = await ground.ask('package', 'install', writeMixedPackage(site));
    if (code !== 0) {
      throw new TypeError(`install ended with ${code}`);
    }
    const trouble = await beginTrouble(ground, storm);
    const claims: Claim[] = [];
    const names = Object.keys(mixedWorkflows);
    const cancels: Promise<void>[] = [];
    for (let index = 0; index < storm.count; index += 1) {
      const workflowId = names[index % names.length]!;
      const runId = await ground.start(packageName, workflowId);
      if (workflowId === 'cancelled') {
        const cancel = ground.cancel(runId).then(() => {
          claims.push({ runId, linesAtAnswer: measureTrace(site) });
        });
        cancels.push(cancel.catch((error: unknown) => storm.log(`cancel of ${runId}: ${error}`)));
      }
    }
    storm.log(`${storm.count} runs are started`);
    const stuck = await ground.idle(storm.secondsMax);
    await Promise.all(cancels);
    const counts = await trouble.end();
    const trace = readTrace(site);
    const records = await ground.records();
    const differences = [
      ...stuck.map((runId) => `run ${runId} is still running`),
      ...compareMixedRuns(records, trace, claims),
      ...(await ground.verify()),
    ];
    const commands = trace.filter(({ kind }) => kind === 'begin').length;
    const seconds = Math.round((performance.now() - beganMs) / 100) / 10;
    return { runs: records.length, commands, ...counts, seconds, differences };
  } finally {
    await ground.close();
  }
}

async function beginTrouble(ground: Ground, storm: Storm) {
  const random = createRandom(storm.seed);
  const proxies: Way[] = [];
  const runtimes: Runtime[] = [];
  const said: string[] = [];
  let isEnding = false;
  const counts = { kills: 0, cuts: 0, dropped: 0 };
  const serve = (index: number) => {
    const url = proxies[index]!.urlOf(ground.database, ground.databases.server.superuser);
    const runtime = ground.serve('machine', { url, concurrency: storm.concurrency });
    runtimes[index] = runtime;
    // As a service manager does.
    void runtime.closed.then(() => {
      said.push(...runtime.said().split('\n'));
      if (!isEnding) {
        serve(index);
      }
    });
  };
  for (let index = 0; index < storm.runtimes; index += 1) {
    proxies.push(await openProxy(ground.databases.server));
    serve(index);
  }
  await Promise.all(runtimes.map(({ ready }) => ready));
  const pick = () => random.between(0, storm.runtimes - 1);
  const killer = setInterval(() => {
    counts.kills += runtimes[pick()]!.process.kill('SIGKILL') ? 1 : 0;
  }, storm.killEveryMs);
  const cutter = setInterval(() => {
    const proxy = proxies[pick()]!;
    const kind = random.fraction();
    if (kind < 0.2) {
      counts.cuts += 1;
      proxy.cutAll();
    } else {
      counts.dropped += 1;
      proxy.cutNext(kind < 0.6 ? 'after-commit' : 'before-commit');
    }
  }, storm.killEveryMs / 3);
  return {
    async end() {
      clearInterval(killer);
      clearInterval(cutter);
      isEnding = true;
      for (const runtime of runtimes) {
        runtime.process.kill('SIGTERM');
        await runtime.closed;
      }
      said.forEach(storm.log);
      for (const proxy of proxies) {
        await proxy.close();
      }
      return counts;
    },
  };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      count: { type: 'string', default: '2000' },
      seed: { type: 'string', default: '1' },
      runtimes: { type: 'string', default: '3' },
      concurrency: { type: 'string', default: '8' },
      bundled: { type: 'boolean', default: false },
      'seconds-max': { type: 'string', default: '900' },
      'kill-every-ms': { type: 'string', default: '1000' },
    },
  });
  const result = await runStorm({
    count: Number(values.count),
    seed: Number(values.seed),
    runtimes: Number(values.runtimes),
    concurrency: Number(values.concurrency),
    isBundled: values.bundled,
    secondsMax: Number(values['seconds-max']),
    killEveryMs: Number(values['kill-every-ms']),
    log: (line) => process.stderr.write(`${line}\n`),
  });
  process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
  process.exitCode = result.differences.length === 0 ? 0 : 1;
}
