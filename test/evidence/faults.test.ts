// The fault matrix drives the shipped bundle; here a few of its scenarios in their quick form, and products that it
// must not let pass.
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { collectFaults, faultScenarios } from '../../edge-evidence/faults/collect.ts';
import type { FaultScenario } from '../../edge-evidence/faults/scenario.ts';
import type { Mode } from '../../edge-evidence/operation.ts';
import type { Part } from '../../edge-evidence/report.ts';

const bundle = join(import.meta.dirname, '../../dist/qinglong-edge.cjs');

type Round = { readonly name: string; readonly mode: Mode; readonly subject?: string };

function makeScratch(t: Test): string {
  const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'faults-')));
  t.teardown(() => rmSync(scratch, { recursive: true, force: true }));
  return scratch;
}

function scenarioOf(name: string): FaultScenario {
  return faultScenarios.find((scenario) => scenario.name === name)!;
}

/** One scenario in its quick form; nothing of it may be left. */
async function collect(t: Test, { name, mode, subject = bundle }: Round): Promise<Part> {
  const scratch = makeScratch(t);
  const options = { bundle: subject, scratch, modes: [mode], isQuick: true, seed: 4, log: () => {} };
  const part = await collectFaults(options, [scenarioOf(name)]);
  t.same(readdirSync(scratch), [], 'nothing is left in the scratch folder');
  t.notMatch(readFileSync('/proc/mounts', 'latin1'), scratch, 'nothing is mounted there');
  return part;
}

const scratch = makeScratch(t);

for (const { name, mode } of [
  { name: 'failing calls: admission', mode: 'wal-full' },
  { name: 'damaged database', mode: 'delete-extra' },
  { name: 'launcher killed', mode: 'delete-extra' },
  { name: 'ext4 filled under a daemon, blocks of 4 KiB', mode: 'delete-extra' },
  { name: 'memory limit of 64 MiB, half a processor', mode: 'wal-full' },
] as const) {
  const skip = scenarioOf(name).findObstacle({ bundle, scratch }) ?? false;
  t.test(`${name}: a clear answer, nothing lost, and it goes on`, { skip }, async (t) => {
    const { kind, scenarios } = await collect(t, { name, mode });
    t.equal(kind, 'faults');
    t.match(scenarios, [{ name, mode, isControl: false, passed: true, failures: [] }]);
    t.ok((scenarios[0]?.figures['tried'] ?? 0) > 0);
    t.equal(scenarios[0]?.figures['held'], scenarios[0]?.figures['tried']);
  });
}

/** A product that does as the real one does, but for one command. */
function writeStandIn(t: Test, body: string): string {
  const file = join(makeScratch(t), 'stand-in.cjs');
  writeFileSync(
    file,
    `const words = process.argv.slice(2).join(' ');\n${body}\nelse require(${JSON.stringify(bundle)});\n`,
  );
  return file;
}

const losers: Readonly<Record<string, readonly [body: string, told: RegExp]>> = {
  'says that a run was created, and writes nothing': [
    "if (words.includes('workflow start')) console.log('01a22e26-4935-7001-bc27-048a736a85c6');",
    /acknowledged and lost: run 01a22e26/,
  ],
  'crashes where it should refuse': [
    `if (words.includes('workflow start') && require('node:fs').readFileSync('/proc/self/limits', 'latin1')
      .match(/Max file size +\\d/)) { null.x; }`,
    /it crashed with exit code 1: .*TypeError/s,
  ],
};

for (const [what, [body, told]] of Object.entries(losers)) {
  t.test(`a product that ${what} does not pass`, async (t) => {
    const subject = writeStandIn(t, body);
    const { scenarios } = await collect(t, { name: 'file size limit', mode: 'delete-extra', subject });
    t.match(scenarios, [{ passed: false }]);
    t.match(scenarios[0]?.failures.join('\n'), told);
  });
}

t.test('what cannot be tried is told, and is no scenario that passed', async (t) => {
  const scratch = makeScratch(t);
  const impossible = { ...scenarioOf('damaged database'), name: 'a flood', findObstacle: () => 'there is no water' };
  const options = { bundle, scratch, modes: [] as const, isQuick: true, seed: 4, log: () => {} };
  const { scenarios, limits, parameters } = await collectFaults(options, [impossible]);
  t.same(scenarios, []);
  t.ok(limits.includes('not tried here: a flood: there is no water'));
  t.match(parameters, { skipped: 1, seed: 4 });
});
