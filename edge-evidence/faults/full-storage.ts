// File systems that are really full: the data directory's before a command and while a daemon works, and the run
// directory's. Then somebody frees space, and everything goes on without a restart. For root alone.
import { symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { modes, type Site } from '../operation.ts';
import { type Expected, works } from './answer.ts';
import { findDeath, startDaemon } from './daemon.ts';
import { endProcesses, packageOf } from './ground.ts';
import type { Journey } from './journey.ts';
import { pause } from './launch.ts';
import { type Disk, empty, fill, findMountObstacle, withExt4, withMount } from './mounts.ts';
import { type FaultScenario, journalModes, type PointOptions, type Stage, storageFails, tryPoint } from './scenario.ts';

/** Small, and with a journal, as on a device. */
export const disk: Disk = { bytes: 12 * 1024 * 1024, blockBytes: 4096 };
/** What mkfs makes by itself of so small a file system. Then a page of memory is not one block of the disk. */
const finelyDivided: Disk = { ...disk, blockBytes: 1024 };
const isFull: Expected = { codes: ['full', 'unavailable', 'unknown-outcome'], mayHold: true };
const findDiskObstacle = () => findMountObstacle(['mkfs.ext4']);

export const fullStorageScenarios: readonly FaultScenario[] = [
  ...[disk, finelyDivided].flatMap((kind): readonly FaultScenario[] => {
    const blocks = `blocks of ${kind.blockBytes / 1024} KiB`;
    return [
      {
        name: `full ext4, ${blocks}`,
        isQuick: false,
        modes: journalModes,
        findObstacle: findDiskObstacle,
        async run(stage) {
          for (const leftKib of kind === disk ? [0, 24, 64, 128] : [0, 24]) {
            await tryFull(stage, kind, leftKib);
          }
        },
      },
      {
        name: `ext4 filled under a daemon, ${blocks}`,
        isQuick: kind === disk,
        modes: modes.filter((mode) => kind === disk || mode !== 'wal-full'),
        findObstacle: findDiskObstacle,
        run: (stage) => tryFilled(stage, kind),
      },
    ];
  }),
  {
    name: 'full run directory (tmpfs)',
    isQuick: false,
    modes: journalModes,
    findObstacle: () => findMountObstacle([]),
    run: tryFullRunDirectory,
  },
];

/** A point whose data directory is on a file system of its own. */
export function tryOnMount(
  stage: Stage,
  what: string,
  { beginning, folder }: { readonly beginning: PointOptions['beginning']; readonly folder: string },
  work: (journey: Journey, site: Site) => Promise<readonly string[]>,
): Promise<void> {
  return tryPoint(stage, what, { beginning, home: folder }, async (journey, site) => {
    // What commands note is kept elsewhere: their own trouble with a full disk would be none of the product's.
    symlinkSync(join(site.root, 'trace'), join(folder, 'trace'));
    symlinkSync(join(site.root, 'gate'), join(folder, 'gate'));
    try {
      return await work(journey, site);
    } finally {
      endProcesses(site);
    }
  });
}

/** There a full disk ends whoever reads a write-ahead log: none is made, and one that came along is not opened. */
async function tryRefused(stage: Stage): Promise<void> {
  for (const beginning of ['nothing', 'installed'] as const) {
    await withExt4(stage.ground.scratch, finelyDivided, (folder) =>
      tryOnMount(stage, `a place that will not do, ${beginning} there`, { beginning, folder }, (journey, site) =>
        journey.ask(['package', 'install', packageOf(site)], { codes: ['unavailable'], mayHold: false }),
      ),
    );
  }
}

async function tryFull(stage: Stage, kind: Disk, leftKib: number): Promise<void> {
  const { scratch, mode } = stage.ground;
  if (kind === finelyDivided && mode === 'wal-full') {
    return tryRefused(stage);
  }
  await withExt4(scratch, kind, (folder) =>
    tryOnMount(stage, `${leftKib} KiB left, install`, { beginning: 'nothing', folder }, async (journey, site) => {
      fill(folder, leftKib * 1024);
      const during = await journey.ask(['package', 'install', packageOf(site)], isFull);
      empty(folder);
      return [
        ...during,
        ...(await journey.ask(['package', 'install', packageOf(site)], works)),
        ...(await journey.start('third', works)),
        ...(await journey.findTrouble()),
      ];
    }),
  );
  await withExt4(scratch, kind, (folder) =>
    tryOnMount(stage, `${leftKib} KiB left, start and read`, { beginning: 'queued', folder }, async (journey) => {
      fill(folder, leftKib * 1024);
      const during = [
        ...(await journey.start('third', isFull)),
        ...(await journey.ask(['runs', 'list'], isFull)),
        ...(await journey.ask(['status'], isFull)),
      ];
      empty(folder);
      return [...during, ...(await journey.start('third', works)), ...(await journey.findTrouble())];
    }),
  );
}

function tryFilled(stage: Stage, kind: Disk): Promise<void> {
  return withExt4(stage.ground.scratch, kind, (folder) =>
    tryOnMount(stage, 'filled, freed', { beginning: 'queued', folder }, async (journey, site) => {
      // Full before it has taken up what waits, so that it meets it in the middle of its work.
      const daemon = await startDaemon(site);
      fill(folder);
      const during = [
        ...(await journey.start('third', isFull)),
        ...(await journey.ask(['status'], works)),
        ...(await journey.ask(['runs', 'list'], works)),
      ];
      await pause(stage.isQuick ? 0 : 1_500);
      const dead = await findDeath(daemon);
      empty(folder);
      return [
        ...during,
        ...dead,
        ...(await journey.start('third', works)),
        ...(await journey.start('fourth', works)),
        ...(await journey.endsBy(daemon)),
        ...(await daemon.stop()),
        ...(await journey.findTrouble()),
      ];
    }),
  );
}

async function tryFullRunDirectory(stage: Stage): Promise<void> {
  for (const [what, bytes] of Object.entries({ 'nothing left': 0, '8 KiB left': 8192, '40 KiB left': 40_960 })) {
    await withMount(stage.ground.scratch, ['-t', 'tmpfs', '-o', 'size=1m,mode=700', 'tmpfs'], (folder) =>
      tryPoint(stage, what, { beginning: 'installed', run: join(folder, 'run') }, async (journey, site) => {
        const daemon = await startDaemon(site);
        fill(dirname(site.run), bytes);
        const during = [
          ...(await journey.start('first', works)),
          ...(await journey.start('wide', works, { workflowId: 'wide' })),
          ...(await journey.ask(['status'], works)),
        ];
        await pause(800);
        empty(dirname(site.run));
        return [
          ...during,
          ...(await journey.endsBy(daemon)),
          ...(await daemon.stop()),
          // With some room there is a start, which may meet the end of it: then its run says that it failed.
          ...(await journey.findTrouble(bytes === 0 ? {} : { mayEnd: ['failed'] })),
        ];
      }),
    );
  }
  await tryFullAtStart(stage);
}

/** A daemon that meets a full run directory when it starts. */
function tryFullAtStart(stage: Stage): Promise<void> {
  return withMount(stage.ground.scratch, ['-t', 'tmpfs', '-o', 'size=64k,mode=700', 'tmpfs'], (folder) =>
    tryPoint(stage, 'full at the start', { beginning: 'queued', run: join(folder, 'run') }, async (journey, site) => {
      fill(folder);
      const during = await journey.ask(['serve', '--until-idle'], storageFails, { limitMs: 3_000 });
      empty(dirname(site.run));
      return [...during, ...(await journey.findTrouble())];
    }),
  );
}
