// The fault matrix: every scenario in every mode, two at a time. Owns what is chosen and how it is told in a report;
// the scenarios themselves are in the other files.
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { runAtATime } from '../at-a-time.ts';
import type { Mode } from '../operation.ts';
import { createRandom } from '../random.ts';
import { type Part, type PartOptions, type Scenario, scenarioOf } from '../report.ts';
import { clockScenarios } from './clocks.ts';
import { damageScenarios } from './damage.ts';
import { failingCallScenarios } from './failing-calls.ts';
import { failingDaemonScenarios } from './failing-daemon.ts';
import { fullStorageScenarios } from './full-storage.ts';
import { endProcesses, type Ground, prepareGround } from './ground.ts';
import { holderScenarios } from './holders.ts';
import { memoryScenarios } from './memory.ts';
import { undoAll } from './mounts.ts';
import { processLimitScenarios } from './process-limits.ts';
import { readOnlyScenarios } from './read-only.ts';
import type { FaultScenario } from './scenario.ts';
import { sidecarScenarios } from './sidecars.ts';
import { createTally } from './tally.ts';

export const faultScenarios: readonly FaultScenario[] = [
  ...failingCallScenarios,
  ...failingDaemonScenarios,
  ...damageScenarios,
  ...sidecarScenarios,
  ...holderScenarios,
  ...clockScenarios,
  ...processLimitScenarios,
  ...fullStorageScenarios,
  ...readOnlyScenarios,
  ...memoryScenarios,
];

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const limits = [
  'faults are made by limits, small file systems, altered files and failing system calls, not by failing hardware',
  'of all pairs of a call and a fault a sample is tried, drawn from the seed; the figures say how many of how many',
  'a fault is met by one process at a time; two faults at once are not tried',
  'short of threads, Node.js itself aborts or waits for ever: of such a point only what it left behind is judged',
  'what a command of a task makes of a fault is the command’s own affair: only its record is judged',
];

/** Never rejects because of the product: what it does wrong is in the scenarios. Leaves nothing behind. */
export async function collectFaults(
  options: PartOptions,
  scenarios: readonly FaultScenario[] = faultScenarios,
): Promise<Part> {
  const { bundle, modes, isQuick, seed, log } = options;
  mkdirSync(options.scratch, { recursive: true });
  const scratch = realpathSync(mkdtempSync(join(options.scratch, 'faults-')));
  // Some sites are another user's.
  chmodSync(scratch, 0o711);
  const chosen = scenarios.filter((scenario) => !isQuick || scenario.isQuick);
  const obstacles = new Map(chosen.map((scenario) => [scenario.name, scenario.findObstacle({ bundle, scratch })]));
  const clear = () => {
    endProcesses({ root: scratch, data: scratch });
    undoAll();
    rmSync(scratch, { recursive: true, force: true, maxRetries: 3 });
  };
  const stopListening = clearWhenEnded(clear);
  try {
    const grounds = new Map<Mode, Ground>();
    for (const mode of modes) {
      grounds.set(mode, await prepareGround({ bundle, scratch, mode }));
    }
    const pairs = chosen
      .filter(({ name }) => obstacles.get(name) === null)
      .flatMap((scenario) => modes.filter((mode) => scenario.modes.includes(mode)).map((mode) => ({ scenario, mode })));
    const results = await runAtATime(pairs, ({ scenario, mode }) =>
      runOne(scenario, grounds.get(mode)!, { isQuick, seed, log }),
    );
    const skipped = [...obstacles].filter(([, obstacle]) => obstacle !== null);
    return {
      kind: 'faults',
      parameters: { seed, isQuick, modes: modes.join(' '), skipped: skipped.length },
      scenarios: results,
      limits: [...limits, ...skipped.map(([name, obstacle]) => `not tried here: ${name}: ${obstacle}`)],
    };
  } finally {
    stopListening();
    clear();
  }
}

/** Somebody who is tired of waiting finds no mount, group or process of ours afterwards. */
function clearWhenEnded(clear: () => void): () => void {
  const hear = (signal: NodeJS.Signals) => {
    clear();
    stopListening();
    process.kill(process.pid, signal);
  };
  const stopListening = () => void signals.forEach((signal) => void process.off(signal, hear));
  signals.forEach((signal) => void process.on(signal, hear));
  return stopListening;
}

type RunOptions = Pick<PartOptions, 'isQuick' | 'seed' | 'log'>;

async function runOne(scenario: FaultScenario, ground: Ground, { isQuick, seed, log }: RunOptions): Promise<Scenario> {
  const { name } = scenario;
  const { mode } = ground;
  const tally = createTally();
  const beganMs = performance.now();
  try {
    await scenario.run({ ground, random: createRandom(seed).fork(`${name}/${mode}`), tally, isQuick });
  } catch (error) {
    await tally.point('the scenario', () => Promise.reject(error));
  }
  const { failures } = tally;
  const figures: Scenario['figures'] = { ...tally.figures(), tookMs: Math.round(performance.now() - beganMs) };
  log(`faults: ${name}, ${mode}: ${figures['held']} of ${figures['tried']} held, ${figures['tookMs']} ms`);
  for (const failure of failures) {
    log(`  ${failure}`);
  }
  return scenarioOf(name, mode, figures, failures);
}
