// `npm run stress`: the shipped bundle under the worst that can happen to a runtime, compared with what the commands
// themselves say. Prints a report on stdout (a table, or one JSON document with --json), progress on stderr; ends with
// 1 if anything differs. The seed gives the same choices again:
//   npm run stress -- [--seed N] [--kills N] [--cancels N] [--scale F] [--profile edge|standalone] [--json]
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { sha256 } from '../src/core/hash.ts';
import { createRandom, drawSeed } from './random.ts';
import { stressCancels } from './stress/cancels.ts';
import { stressKills } from './stress/kills.ts';
import { stressOutputs } from './stress/outputs.ts';
import { printReport, type Scenario, type StressReport } from './stress/report.ts';
import { bundleFile, type Profile } from './stress/site.ts';
import { readOrExit } from './usage.ts';

const profiles: readonly Profile[] = ['edge', 'standalone'];

type Parameters = StressReport['parameters'];

function readParameters(): Parameters & { readonly isJson: boolean } {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      kills: { type: 'string', default: '500' },
      cancels: { type: 'string', default: '500' },
      scale: { type: 'string', default: '1' },
      profile: { type: 'string' },
      json: { type: 'boolean', default: false },
    },
  });
  return {
    seed: Number(values.seed ?? drawSeed()),
    kills: Number(values.kills),
    cancels: Number(values.cancels),
    scale: Number(values.scale),
    profiles: profiles.filter((profile) => values.profile === undefined || values.profile === profile),
    isJson: values.json,
  };
}

/** Kills and cancels are shared out among the profiles; 0 leaves a part out. */
async function runScenarios(parameters: Parameters, note: (line: string) => void): Promise<readonly Scenario[]> {
  const { seed, kills, cancels, scale } = parameters;
  const random = createRandom(seed);
  const scenarios: Scenario[] = [];
  for (const [index, profile] of parameters.profiles.entries()) {
    const shareOf = (count: number) => Math.floor((count + index) / parameters.profiles.length);
    if (kills > 0) {
      const { differences, ...figures } = await stressKills({ profile, kills: shareOf(kills), random, note });
      scenarios.push({ name: 'kills of the runtime', profile, figures, outputs: [], differences });
    }
    if (cancels > 0) {
      const { differences, ...figures } = await stressCancels({ profile, cancels: shareOf(cancels), random, note });
      scenarios.push({ name: 'cancels against an end', profile, figures, outputs: [], differences });
    }
    if (scale > 0) {
      const { differences, figures: outputs } = await stressOutputs({ profile, scale, note });
      scenarios.push({ name: 'hostile output', profile, figures: {}, outputs, differences });
    }
  }
  return scenarios;
}

const usage = 'npm run stress -- [--seed N] [--kills N] [--cancels N] [--scale N] [--profile NAME] [--json]';

async function main(): Promise<void> {
  const { isJson, ...parameters } = readOrExit(usage, readParameters);
  process.stderr.write(`seed ${parameters.seed}\n`);
  const scenarios = await runScenarios(parameters, (line) => process.stderr.write(`${line}\n`));
  const failed = scenarios.filter(({ differences }) => differences.length > 0).length;
  const report: StressReport = {
    schema: 'qinglong/stress@v1',
    kind: 'stress',
    subject: { bundleSha256: sha256(readFileSync(bundleFile)), node: process.version, arch: process.arch },
    parameters,
    scenarios,
    summary: { scenarios: scenarios.length, passed: scenarios.length - failed, failed },
    limits: [
      'processes are killed, the machine is not: what a power cut loses is shown elsewhere',
      'moments are drawn from the seed, but what a process does at that moment depends on the machine',
    ],
  };
  process.stdout.write(isJson ? `${JSON.stringify(report, null, 2)}\n` : printReport(report));
  process.exitCode = failed > 0 ? 1 : 0;
}

await main();
