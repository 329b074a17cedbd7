// Every call of every operation as a window for SIGKILL.
import { mkdtempSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { runInThreads } from '../recorder/pool.ts';
import { buildShim, noShim } from '../recorder/shim.ts';
import { listTasks, type Task } from '../recorder/subjects.ts';
import type { Part, PartOptions, Scenario } from '../report.ts';
import { clearFolder } from '../site-copy.ts';

export type ExhaustiveTask = Task & { readonly returnsMax: number; readonly realKills: number };

const sizes = {
  quick: { returnsMax: 2, realKills: 1 },
  full: { returnsMax: 32, realKills: 1 },
} as const;

const limits: readonly string[] = [
  'kills between two calls of the process: nothing but a call leaves anything behind',
  'the bundle coming back to every disk: it does to one of each sort (the same files, the same commit)',
  'what launchers write to the run directory behind a kill that is replayed; the real kills have it',
  'other systems than this one, and other C libraries than glibc',
];

/** Records each operation in each mode, and judges what a SIGKILL at any call would leave. */
export async function collectExhaustive(options: PartOptions): Promise<Part> {
  const { modes, isQuick, seed, log } = options;
  const size = isQuick ? sizes.quick : sizes.full;
  const parameters = { quick: isQuick, seed, ...size };
  const scratch = realpathSync(mkdtempSync(join(options.scratch, 'exhaustive-')));
  try {
    const shim = buildShim(scratch);
    if (shim === null) {
      return { kind: 'exhaustive', parameters, scenarios: [], limits: [`all of it: ${noShim}`, ...limits] };
    }
    const tasks = listTasks({ bundle: options.bundle, scratch, shim, modes, isQuick, seed });
    const file = join(import.meta.dirname, 'thread.ts');
    const scenarios = await runInThreads<ExhaustiveTask, Scenario>(
      file,
      tasks.map((task) => ({ ...task, ...size })),
      ({ name, mode, figures, failures }) =>
        log(`exhaustive, ${mode}, ${name}: ${figures['windows']} windows, ${failures.length} failures`),
    );
    return { kind: 'exhaustive', parameters, scenarios, limits };
  } finally {
    clearFolder(scratch);
  }
}
