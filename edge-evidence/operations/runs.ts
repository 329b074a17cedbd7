// Runs: their admission, how they go on, and every way in which they end.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Ended, mustRun, type Operation, readSiteFile, type Site, unless } from '../operation.ts';
import {
  failedOutput,
  findEffectTrouble,
  findRunsTrouble,
  firstRunId,
  installCutPackage,
  packageName,
  queueRun,
  readAnswer,
  type WorkflowId,
  writeCutPackage,
} from './cut-package.ts';
import { defineOperation } from './define.ts';

const serve = ['serve', '--until-idle'];

/** What is needed at a cut, when the database should not be looked at: prepared runs have ids that nobody chose. */
async function noteRunId(site: Site): Promise<void> {
  writeFileSync(join(site.root, 'run-id'), firstRunId(site));
}

function prepareQueued(...workflowIds: readonly WorkflowId[]) {
  return async (site: Site) => {
    await installCutPackage(site);
    for (const workflowId of workflowIds) {
      await queueRun(site, workflowId);
    }
    await noteRunId(site);
  };
}

function findEndTrouble(...statuses: readonly string[]) {
  return (site: Site) => [...findRunsTrouble(site, ...statuses), ...findEffectTrouble(site)];
}

function findOutcomeTrouble(answer: Ended, ...outcomes: readonly string[]): readonly string[] {
  const { outcome } = readAnswer(answer);
  return unless(outcomes.includes(`${outcome}`), `it answered ${outcome} instead of ${outcomes.join(' or ')}`);
}

export const admission: Operation = defineOperation({
  name: 'admission',
  title: 'the plan of a workflow of two steps is admitted',
  prepare: async (site) => {
    await installCutPackage(site);
    await mustRun(site, 'workflow', 'plan', `${packageName}/pair`, '--out', join(site.root, 'plan.json'));
  },
  act: (site) => ['workflow', 'admit', join(site.root, 'plan.json'), '--json'],
  findTrouble: (site, answer) => [
    ...findRunsTrouble(site, 'running'),
    ...findOutcomeTrouble(answer, 'created', 'existing'),
  ],
});

export const runOperations: readonly Operation[] = [
  admission,
  defineOperation({
    name: 'advance',
    title: 'a diamond of four steps: attempts, start barriers, completions and the frontier, one after another',
    prepare: prepareQueued('diamond'),
    act: () => [...serve, '--concurrency', '1'],
    endsAlike: false,
    findTrouble: findEndTrouble('succeeded'),
  }),
  defineOperation({
    name: 'run',
    title: 'a package is installed, and its workflow followed to the end, by one command',
    prepare: async (site) => {
      writeCutPackage(site);
      await mustRun(site, ...serve);
    },
    act: (site) => ['run', join(site.root, 'package-1.0.0'), '--workflow', 'single', '--key', 'evidence'],
    endsAlike: false,
    findTrouble: findEndTrouble('succeeded'),
  }),
  defineOperation({
    name: 'group-commit',
    title: 'three queued runs begin in one commit and end side by side',
    prepare: prepareQueued('single', 'single', 'single'),
    act: () => [...serve, '--concurrency', '4'],
    endsAlike: false,
    isOrdered: false,
    findTrouble: findEndTrouble('succeeded', 'succeeded', 'succeeded'),
  }),
  defineOperation({
    name: 'kept-output',
    title: 'a step fails, what it wrote is kept, and the step behind it is skipped',
    prepare: prepareQueued('failing'),
    act: () => [...serve],
    endsAlike: false,
    findTrouble: (site) => [...findEndTrouble('failed')(site), ...findOutputTrouble(site)],
  }),
  defineOperation({
    name: 'cancellation',
    title: 'a queued run is cancelled',
    prepare: prepareQueued('pair'),
    act: (site) => ['runs', 'cancel', readSiteFile(site, 'run-id')],
    findTrouble: findEndTrouble('cancelled'),
  }),
  defineOperation({
    name: 'retry',
    title: 'a failed run is started anew',
    prepare: async (site) => {
      await prepareQueued('failing')(site);
      await mustRun(site, ...serve);
    },
    act: (site) => ['runs', 'retry', readSiteFile(site, 'run-id'), '--key', 'evidence'],
    findTrouble: findEndTrouble('failed', 'running'),
  }),
  defineOperation({
    name: 'attempt-timeout',
    title: 'a command takes too long and is stopped',
    prepare: prepareQueued('stopped'),
    act: () => [...serve],
    endsAlike: false,
    findTrouble: findEndTrouble('timed_out'),
  }),
  defineOperation({
    name: 'run-deadline',
    title: 'the time of a run is over before anything of it began',
    prepare: prepareQueued('late'),
    act: () => [...serve],
    findTrouble: findEndTrouble('timed_out'),
  }),
];

export const notKept = 'what the failed attempt wrote is not kept';

/** What the failed attempt wrote is kept whole, and what a lost one wrote is a beginning of the same. */
function findOutputTrouble(site: Site): readonly string[] {
  const directory = join(site.data, 'artifacts');
  const files = existsSync(directory) ? readdirSync(directory) : [];
  // Behind what the command wrote stands a line that says how much that was.
  const texts = files.map((name) => readFileSync(join(directory, name), 'utf8').split('\nql-output-1 ')[0] ?? '');
  return [
    ...unless(texts.includes(failedOutput), notKept),
    ...texts
      .filter((text) => !failedOutput.startsWith(text))
      .map((text) => `the kept output is ${JSON.stringify(text)}`),
  ];
}
