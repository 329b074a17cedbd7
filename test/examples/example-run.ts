// Runs the scripts of an example package directly, step by step along its graph, as their shell would: the examples
// themselves are tested here, not the product. Not a test itself.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tap, { type Test } from 'tap';
import { type CheckedPackage, checkPackage } from '../../src/runtime/package-source.ts';

export const examplesDirectory = join(import.meta.dirname, '../../schema/examples');

const busybox =
  [process.env['BUSYBOX'], '/bin/busybox', '/usr/bin/busybox'].find((path) => path !== undefined && existsSync(path)) ??
  null;

export type StepEnd = { readonly status: number | null; readonly output: string };

export type Scene = {
  /** A directory of this test alone, removed when it is over. */
  readonly directory: string;
  readonly checked: CheckedPackage;
  /** Runs one step; `env` goes over that of its task. */
  runStep(stepKey: string, env: Readonly<Record<string, string>>): StepEnd;
  /** Runs every step whose needs have succeeded, in the order of the graph. */
  runWorkflow(env: Readonly<Record<string, string>>): ReadonlyMap<string, StepEnd>;
};

type Shell = { readonly command: readonly string[]; readonly path: string };

/** A rule that holds under /bin/sh with this machine's tools, and under BusyBox with its own, where there is one. */
export function testExample(name: string, example: string, body: (t: Test, scene: Scene) => Promise<void>): void {
  tap.test(`${name} (/bin/sh)`, (t) => withScene(t, example, body));
  const skip = busybox === null ? 'busybox is not installed on this machine' : false;
  tap.test(`${name} (BusyBox)`, { skip }, (t) => withScene(t, example, body, busybox ?? ''));
}

async function withScene(
  t: Test,
  example: string,
  body: (t: Test, scene: Scene) => Promise<void>,
  applets: string | null = null,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), `${example}-`));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const shell = applets === null ? { command: ['/bin/sh'], path: '/usr/bin:/bin' } : makeApplets(directory, applets);
  const checked = await checkPackage(join(examplesDirectory, example));
  const runStep: Scene['runStep'] = (stepKey, env) => runTask({ shell, checked, stepKey, env });
  await body(t, { directory, checked, runStep, runWorkflow: (env) => runSteps(checked, (key) => runStep(key, env)) });
}

/** A directory with BusyBox's own tools and no others, as a router has them. */
function makeApplets(directory: string, applets: string): Shell {
  const path = join(directory, 'applets');
  mkdirSync(path);
  for (const name of spawnSync(applets, ['--list'], { encoding: 'utf8' }).stdout.trim().split('\n')) {
    symlinkSync(applets, join(path, name));
  }
  return { command: [applets, 'sh'], path };
}

function runTask(options: {
  readonly shell: Shell;
  readonly checked: CheckedPackage;
  readonly stepKey: string;
  readonly env: Readonly<Record<string, string>>;
}): StepEnd {
  const { shell, checked, stepKey, env } = options;
  const { taskId } = checked.manifest.workflows[0]!.steps.find((step) => step.stepKey === stepKey)!;
  const task = checked.manifest.tasks.find(({ id }) => id === taskId)!;
  const [command, ...before] = shell.command;
  const { status, stdout, stderr } = spawnSync(command!, [...before, ...task.argv], {
    cwd: join(checked.contents.path, task.cwd),
    env: { PATH: shell.path, HOME: '/', TZ: 'UTC', LANG: 'C.UTF-8', ...task.env, QL_RUN_ID: 'run-1', ...env },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return { status, output: stdout + stderr };
}

function runSteps(checked: CheckedPackage, run: (stepKey: string) => StepEnd): ReadonlyMap<string, StepEnd> {
  const { steps } = checked.manifest.workflows[0]!;
  const ends = new Map<string, StepEnd>();
  for (let ready = steps; ready.length > 0; ) {
    ready = steps.filter(
      ({ stepKey, needs }) => !ends.has(stepKey) && needs.every((need) => ends.get(need)?.status === 0),
    );
    for (const { stepKey } of ready) {
      ends.set(stepKey, run(stepKey));
    }
  }
  return ends;
}
