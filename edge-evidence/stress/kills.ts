// Kills the runtime, and it alone, at random moments while mixed workflows run; brings the directory back each time;
// and compares what the commands did with what the records say. Every random choice comes from the seed; when a process
// is killed in its own time does not.
import type { Random } from '../random.ts';
import { type Claim, compareMixedRuns } from './compare.ts';
import { mixedWorkflows, packageName, writeMixedPackage } from './mixed-package.ts';
import { readRecords } from './records.ts';
import {
  askDaemon,
  callBundle,
  closeSite,
  findLeftProcesses,
  makeSite,
  type Profile,
  pause,
  type Site,
  type Started,
  seenIn,
  startBundle,
} from './site.ts';
import { measureTrace, readTrace } from './trace.ts';

export type KillsReport = {
  kills: number;
  runs: number;
  commands: number;
  /** Commands that came to their own end while no runtime was there. */
  endedWhileDead: number;
  /** Kills that came before the runtime had said that it is ready. */
  killedWhileStarting: number;
  cancels: number;
  readonly differences: string[];
};

export type KillsOptions = {
  readonly profile: Profile;
  readonly kills: number;
  readonly random: Random;
  readonly note: (line: string) => void;
};

const killsPerSite = 10;
/** What is left at the end of a site has to come to its end within this. */
const drainMsMax = 120_000;

type Order = { readonly key: string; readonly workflowId: string; runId: string | null };
type Scene = {
  readonly site: Site;
  readonly random: Random;
  readonly orders: Order[];
  readonly claims: Claim[];
  readonly report: KillsReport;
};

export async function stressKills({ profile, kills, random, note }: KillsOptions): Promise<KillsReport> {
  const report: KillsReport = {
    kills: 0,
    runs: 0,
    commands: 0,
    endedWhileDead: 0,
    killedWhileStarting: 0,
    cancels: 0,
    differences: [],
  };
  for (let round = 1; report.kills < kills; round += 1) {
    const site = makeSite(profile);
    try {
      const scene = { site, random: random.fork(`${profile}/${round}`), orders: [], claims: [], report };
      await runRound(scene, Math.min(killsPerSite, kills - report.kills));
    } finally {
      closeSite(site);
    }
    note(`${profile}: ${report.kills} kills, ${report.runs} runs, ${report.differences.length} differences`);
  }
  return report;
}

async function runRound(scene: Scene, kills: number): Promise<void> {
  const { site, report } = scene;
  const installed = await callBundle(site, 'package', 'install', writeMixedPackage(site));
  if (installed.code !== 0) {
    report.differences.push(`the package cannot be installed: ${installed.err.trim()}`);
    report.kills += kills;
    return;
  }
  for (let count = 0; count < kills; count += 1) {
    await liveAndDie(scene);
  }
  await drain(scene);
  await compareSite(scene);
}

/** One life of the runtime: it starts, is given work, and is killed. */
async function liveAndDie(scene: Scene): Promise<void> {
  const { site, random, report } = scene;
  const runtime = startBundle(site, ['serve']);
  const moment = killMoment(scene, runtime);
  let isReady = false;
  const errands = runtime.spoke.then(() => {
    isReady = true;
    return doErrands(scene);
  });
  await Promise.race([moment, runtime.ended]);
  const isAlive = runtime.process.exitCode === null && runtime.process.signalCode === null;
  const wasReady = isReady;
  runtime.process.kill('SIGKILL');
  const { code, err } = await runtime.ended;
  report.kills += 1;
  report.killedWhileStarting += wasReady ? 0 : 1;
  if (!isAlive) {
    report.differences.push(`the runtime ended by itself with ${code}: ${err.trim()}`);
  }
  await errands;
  const atDeath = measureTrace(site);
  await pause(random.chance(0.3) ? 0 : random.between(0, 700));
  report.endedWhileDead += readTrace(site)
    .slice(atDeath)
    .filter(({ kind }) => kind === 'end').length;
}

/** While it starts and recovers, at any time later, or right behind something that a command did. */
function killMoment({ site, random }: Scene, runtime: Started): Promise<void> {
  const kind = random.fraction();
  const delayMs = random.between(0, 1_400);
  if (kind < 0.25) {
    return pause(delayMs / 5);
  }
  if (kind < 0.65) {
    return pause(delayMs);
  }
  const behindNextLine = runtime.spoke.then(async () => {
    const before = measureTrace(site);
    await seenIn(site, () => measureTrace(site) > before, 2_000);
    await pause(delayMs / 50);
  });
  return behindNextLine;
}

/** Work for the runtime. An answer that does not come leaves the outcome unknown: the same key is given again. */
async function doErrands(scene: Scene): Promise<void> {
  const { site, random, orders, claims } = scene;
  const fresh = random.between(1, site.profile === 'edge' ? 1 : 3);
  const workflowIds = Object.keys(mixedWorkflows);
  for (let count = 0; count < fresh; count += 1) {
    const workflowId = random.chance(0.2) ? 'cancelled' : random.pick(workflowIds);
    orders.push({ key: `key-${orders.length}`, workflowId, runId: null });
  }
  try {
    for (const order of orders.filter(({ runId }) => runId === null)) {
      const { key: idempotencyKey, workflowId } = order;
      const request = { packageName, workflowId, idempotencyKey, requestedBy: 'stress' };
      const { document } = await askDaemon(site, '/v1/runs', request);
      order.runId = (document['receipt'] as { readonly runId: string }).runId;
    }
    for (const { runId, workflowId } of orders) {
      const isOpen = workflowId === 'cancelled' && !claims.some((claim) => claim.runId === runId);
      if (runId !== null && isOpen && random.chance(0.6)) {
        await pause(random.between(0, 500));
        const { document } = await askDaemon(site, `/v1/runs/${runId}/cancel`, { requestedBy: 'stress' });
        const linesAtAnswer = measureTrace(site);
        if (document['kind'] === 'requested' || document['kind'] === 'existing') {
          claims.push({ runId, linesAtAnswer });
        }
      }
    }
  } catch {
    // It was killed meanwhile.
  }
}

async function drain({ site, report }: Scene): Promise<void> {
  const last = startBundle(site, ['serve', '--until-idle']);
  const timer = setTimeout(() => {
    last.process.kill('SIGKILL');
    report.differences.push(`not everything came to its end within ${drainMsMax} ms`);
  }, drainMsMax);
  const { code, err } = await last.ended;
  clearTimeout(timer);
  if (code !== 0) {
    report.differences.push(`serve --until-idle ended with ${code}: ${err.trim()}`);
  }
}

async function compareSite({ site, orders, claims, report }: Scene): Promise<void> {
  const { records, differences } = await readRecords(site);
  const trace = readTrace(site);
  const verified = await callBundle(site, 'verify');
  const left = await findLeftProcesses(site);
  const keys = records.map(({ run }) => run.idempotencyKey);
  const lost = orders.filter(({ runId }) => runId !== null && !records.some(({ run }) => run.id === runId));
  report.runs += records.length;
  report.cancels += claims.length;
  report.commands += trace.filter(({ kind }) => kind === 'begin').length;
  report.differences.push(
    ...differences,
    ...compareMixedRuns(records, trace, claims),
    ...(verified.code === 0 ? [] : [`verify ended with ${verified.code}: ${(verified.out + verified.err).trim()}`]),
    ...left.map((pid) => `process ${pid} is left`),
    ...(new Set(keys).size === keys.length ? [] : ['one key led to two runs']),
    ...lost.map(({ key, runId }) => `${key} led to run ${runId}, which is gone`),
  );
}
