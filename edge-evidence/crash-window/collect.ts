// Crash windows: every operation is killed behind each statement that writes, and on both sides of each COMMIT. Owns
// what is chosen and how it is told; one window is window.ts.
import { mkdirSync, mkdtempSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { runAtATime } from '../at-a-time.ts';
import type { Mode, Operation } from '../operation.ts';
import { operations as allOperations } from '../operations/all.ts';
import { admission } from '../operations/runs.ts';
import { type Part, type PartOptions, type Scenario, scenarioOf } from '../report.ts';
import { clearFolder } from '../site-copy.ts';
import { admissionFigures, admissionWindows, findFigureTrouble, findWindowPoint } from './admission-windows.ts';
import { commitPoints, type Observation } from './point.ts';
import { type Bench, closeBench, openBench, openWindow, type WindowResult } from './window.ts';

const limits = [
  'a killed process leaves its writes to the kernel: nothing here is about power loss',
  'a process dies between two statements here; between two system calls is what exhaustive evidence is about',
  'windows are those of one fixed execution of each operation, on an otherwise idle database of a few rows',
];

/** Never rejects because of the product: what it does wrong is in the scenarios. Leaves nothing behind. */
export async function collectCrashWindows(
  options: PartOptions,
  operations: readonly Operation[] = allOperations,
): Promise<Part> {
  const { modes, isQuick, log } = options;
  mkdirSync(options.scratch, { recursive: true });
  const root = realpathSync(mkdtempSync(join(options.scratch, 'crash-window-')));
  try {
    const pairs = operations.flatMap((operation) => modes.map((mode) => ({ operation, mode })));
    const results = await runAtATime(pairs, async ({ operation, mode }, index) => {
      const beganMs = performance.now();
      const scenarios = await collectOperation(operation, { ...options, mode, root: join(root, `${index}`) });
      const windows = scenarios.reduce((sum, { figures }) => sum + (figures['windows'] ?? 0), 0);
      const failed = scenarios.filter(({ passed }) => !passed);
      const took = `${Math.round(performance.now() - beganMs)} ms`;
      log(`crash-window: ${operation.name}, ${mode}: ${windows} windows, ${failed.length} scenarios failed, ${took}`);
      for (const failure of failed.flatMap(({ failures }) => failures)) {
        log(`  ${failure}`);
      }
      return scenarios;
    });
    const parameters = { operations: operations.length, rule: isQuick ? quickRule : fullRule };
    return { kind: 'crash-window', parameters, scenarios: results.flat(), limits };
  } finally {
    clearFolder(root);
  }
}

type Collected = PartOptions & { readonly mode: Mode; readonly root: string };

async function collectOperation(operation: Operation, options: Collected): Promise<readonly Scenario[]> {
  const { mode, isQuick } = options;
  let bench: Bench;
  try {
    bench = await openBench(operation, options);
  } catch (error) {
    return [scenarioOf(operation.name, mode, { windows: 0 }, [`it cannot be prepared: ${(error as Error).message}`])];
  }
  try {
    const named = operation === admission ? await collectAdmission(bench, mode) : [];
    const results: WindowResult[] = [];
    const { points, facts, commits } = bench.observation;
    const chosen = chooseWindows(bench, isQuick);
    if (bench.failures.length === 0) {
      for (const { number, isReplayed } of chosen) {
        results.push(await openWindow(bench, number, isReplayed ? 1 : 0));
      }
    }
    const figures = {
      points: points.length,
      commits,
      states: new Set(facts).size,
      windows: results.length,
      killed: results.filter(({ point }) => point !== null).length,
      replays: results.reduce((sum, { replays }) => sum + replays.length, 0),
      strayed: results.reduce((sum, { strayed }) => sum + strayed, 0),
    };
    const failures = [...bench.failures, ...results.flatMap((result) => result.failures)];
    return [...named, scenarioOf(operation.name, mode, figures, failures)];
  } finally {
    closeBench(bench);
  }
}

async function collectAdmission(bench: Bench, mode: Mode): Promise<readonly Scenario[]> {
  const scenarios: Scenario[] = [];
  for (const window of admissionWindows) {
    const number = findWindowPoint(window, bench.observation.points);
    if (number === 0) {
      scenarios.push(scenarioOf(window.name, mode, { windows: 0 }, [`the admission never comes to ${window.point}`]));
    } else {
      const result = await openWindow(bench, number, 2);
      const figures = admissionFigures(result);
      scenarios.push(
        scenarioOf(window.name, mode, figures, [...result.failures, ...findFigureTrouble(window, figures)]),
      );
    }
  }
  return scenarios;
}

const quickRule = 'of each operation the point in the middle, and both sides of its last COMMIT';
const fullRule =
  'every point; brought to its end from both sides of each COMMIT and from the first and last point between';

type Choice = { readonly number: number; readonly isReplayed: boolean };

/**
 * Between two statements of one transaction nothing happens outside of it, so such windows differ in nothing that a
 * replay could show: only the first of them is also brought to its end.
 */
function chooseWindows({ operation, observation }: Bench, isQuick: boolean): readonly Choice[] {
  const count = operation.isOrdered ? observation.points.length : orderedLength(observation);
  const points = observation.points.slice(0, count);
  const isCommit = (index: number) => Object.values<string>(commitPoints).includes(points[index]?.name ?? '');
  if (isQuick) {
    const last = points.findLastIndex(({ name }) => name === commitPoints.after);
    // Both sides of its COMMIT are among the named windows of an admission.
    const sides = operation === admission ? [] : [last, last + 1];
    const numbers = new Set([Math.ceil(points.length / 2), ...sides]);
    return [...numbers].filter((number) => number > 0).map((number) => ({ number, isReplayed: true }));
  }
  return points.map((_, index) => ({
    number: index + 1,
    isReplayed: index === 0 || index === points.length - 1 || isCommit(index) || isCommit(index - 1),
  }));
}

/** Where commands end side by side, what comes behind the first commit is never the same twice. */
function orderedLength({ points }: Observation): number {
  return 1 + points.findIndex(({ name }) => name === commitPoints.after);
}
