// What a power cut may leave of every operation, and three controls in which it must leave too little.
import { mkdtempSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { Mode } from '../operation.ts';
import { runInThreads } from '../recorder/pool.ts';
import { buildShim, noShim } from '../recorder/shim.ts';
import { listTasks, type Task } from '../recorder/subjects.ts';
import type { Part, PartOptions, Scenario } from '../report.ts';
import { clearFolder } from '../site-copy.ts';
import type { PowerLoss } from './lose-power.ts';

export type PowerLossTask = Task & Omit<PowerLoss, 'subject'>;

type Size = Pick<PowerLoss, 'ripe' | 'between' | 'returns'>;

const sizes: Readonly<Record<'quick' | 'full', Size>> = {
  quick: { ripe: { drawnMax: 10, edgesMax: 30 }, between: { drawnMax: 1, edgesMax: 2 }, returns: 1 },
  full: { ripe: { drawnMax: 80, edgesMax: 240 }, between: { drawnMax: 2, edgesMax: 6 }, returns: 3 },
};

/** What is not offered, because an acknowledged commit does not survive it; the database does not survive OFF. */
const controls: readonly { readonly mode: Mode; readonly synchronous: string; readonly name: string }[] = [
  { mode: 'delete-extra', synchronous: 'OFF', name: 'control: DELETE with synchronous OFF' },
  { mode: 'delete-extra', synchronous: 'FULL', name: 'control: DELETE with synchronous FULL, as if it were EXTRA' },
  { mode: 'wal-full', synchronous: 'NORMAL', name: 'control: WAL with synchronous NORMAL' },
];
const controlled = 'admission';

const limits: readonly string[] = [
  'a real power cut: the disks are made from recorded calls, by a model of what a sync promises',
  'devices that lose what they said was synced, damage bytes that nobody wrote, or rot',
  'file systems that do not come back themselves, and renames that are half done',
  'all combinations of what was on its way: where that is much, those at the edges, and others drawn by the seed',
  'writes that are torn elsewhere than at multiples of 512 or of 4096 bytes of their file',
  'that package files which nothing can be started from are whole: they are removed, or mended when installed again',
  'that delete-full keeps the last commit, and files that it made needless (disksWithLostCommits counts such disks)',
];

/** Records each operation in each mode, and judges the disks that a power cut at any call could leave. */
export async function collectPowerLoss(options: PartOptions): Promise<Part> {
  const { modes, isQuick, seed, log, bundle } = options;
  const size = isQuick ? sizes.quick : sizes.full;
  const parameters = {
    quick: isQuick,
    seed,
    drawnMax: size.ripe.drawnMax,
    edgesMax: size.ripe.edgesMax,
    returns: size.returns,
  };
  const scratch = realpathSync(mkdtempSync(join(options.scratch, 'power-loss-')));
  try {
    const shim = buildShim(scratch);
    if (shim === null) {
      return { kind: 'power-loss', parameters, scenarios: [], limits: [`all of it: ${noShim}`, ...limits] };
    }
    const common = { bundle, scratch, shim, modes, isQuick, seed };
    const tasks: readonly PowerLossTask[] = [
      ...listTasks(common).map((task) => ({ ...task, ...size, control: null })),
      ...listControls(common).map((task) => ({ ...task, ...size })),
    ];
    const file = join(import.meta.dirname, 'thread.ts');
    const scenarios = await runInThreads<PowerLossTask, Scenario>(file, tasks, ({ name, mode, figures, failures }) =>
      log(`power loss, ${mode}, ${name}: ${figures['distinctDisks']} disks, ${failures.length} failures`),
    );
    return { kind: 'power-loss', parameters, scenarios, limits };
  } finally {
    clearFolder(scratch);
  }
}

type ControlTask = Task & { readonly control: string };

function listControls(common: Parameters<typeof listTasks>[0]): readonly ControlTask[] {
  return controls
    .filter(({ mode }) => common.modes.includes(mode))
    .map(({ mode, synchronous, name }) => ({
      bundle: common.bundle,
      shim: common.shim,
      seed: common.seed,
      mode,
      operationName: controlled,
      control: name,
      scratch: join(common.scratch, `control-${mode}-${synchronous}`),
      nodeArgs: ['--import', join(import.meta.dirname, 'weaken.ts')],
      env: { QLE_WEAKENED_SYNCHRONOUS: synchronous },
    }));
}
