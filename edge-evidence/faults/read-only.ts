// Storage that cannot be written: by its modes (for who is not root), by its mount, because the file system turned
// read-only after an error, and a firmware's root of squashfs with an overlay above it.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  cpSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
} from 'node:fs';
import { join } from 'node:path';
import { modes, type Site } from '../operation.ts';
import { type Expected, works } from './answer.ts';
import { findDeath, startDaemon } from './daemon.ts';
import { disk, tryOnMount } from './full-storage.ts';
import { endProcesses } from './ground.ts';
import type { Journey } from './journey.ts';
import { empty, fill, findMountObstacle, hasTool, makeImage, run, withExt4, withMount } from './mounts.ts';
import { type FaultScenario, journalModes, type Stage, tryPoint } from './scenario.ts';
import { findUserObstacle, plainUserId } from './users.ts';

const cannotWrite: Expected = { codes: ['unavailable'], mayHold: false };
const mayRead: Expected = { codes: ['unavailable'], mayHold: true };
const fails: Expected = { codes: ['unavailable', 'unknown-outcome', 'full', 'damaged'], mayHold: true };

export const readOnlyScenarios: readonly FaultScenario[] = [
  { name: 'read-only data directory', isQuick: false, modes, findObstacle: findUserObstacle, run: tryModes },
  {
    name: 'read-only mount',
    isQuick: false,
    modes: journalModes,
    findObstacle: () => findMountObstacle(['mkfs.ext4']),
    run: tryMount,
  },
  {
    name: 'file system turns read-only under a daemon',
    isQuick: false,
    modes: journalModes,
    findObstacle: () => findMountObstacle(['mkfs.ext4']),
    run: tryAborted,
  },
  {
    name: 'read-only root with an overlay',
    isQuick: false,
    modes: journalModes,
    findObstacle: () => findMountObstacle(['mkfs.ext4']),
    run: tryOverlay,
  },
];

async function askWithoutWriting(journey: Journey): Promise<readonly string[]> {
  return [
    ...(await journey.start('third', cannotWrite)),
    ...(await journey.ask(['serve', '--until-idle'], cannotWrite)),
    ...(await journey.ask(['runs', 'list'], mayRead)),
    ...(await journey.ask(['status'], mayRead)),
  ];
}

async function tryModes(stage: Stage): Promise<void> {
  const userId = plainUserId();
  const changes: Readonly<Record<string, (site: Site, isClosed: boolean) => void>> = {
    'directory and files': ({ data }, isClosed) => {
      for (const name of ['', ...readdirSync(data)]) {
        const isFile = name !== '' && name !== 'packages';
        chmodSync(join(data, name), isClosed ? (isFile ? 0o400 : 0o500) : isFile ? 0o600 : 0o700);
      }
    },
    'directory alone': ({ data }, isClosed) => chmodSync(data, isClosed ? 0o500 : 0o700),
    'database unreadable': ({ data }, isClosed) => chmodSync(join(data, 'qinglong.db'), isClosed ? 0 : 0o600),
  };
  for (const [what, change] of Object.entries(changes)) {
    await tryPoint(stage, what, { beginning: 'queued', userId }, async (journey, site) => {
      change(site, true);
      const during = await askWithoutWriting(journey);
      change(site, false);
      return [...during, ...(await journey.start('third', works)), ...(await journey.findTrouble())];
    });
  }
}

function tryMount(stage: Stage): Promise<void> {
  return withExt4(stage.ground.scratch, disk, (folder) =>
    tryOnMount(stage, 'remounted ro, then rw', { beginning: 'queued', folder }, async (journey) => {
      run('mount', '-o', 'remount,ro', folder);
      const during = await askWithoutWriting(journey);
      run('mount', '-o', 'remount,rw', folder);
      return [...during, ...(await journey.start('third', works)), ...(await journey.findTrouble())];
    }),
  );
}

/**
 * A mount with a writer cannot be made read-only by hand; the kernel does it after an error, for good: the file system
 * has to be checked and mounted again. Everything that was acknowledged before must be there then.
 */
async function tryAborted(stage: Stage): Promise<void> {
  const image = makeImage(stage.ground.scratch, disk);
  await withMount(stage.ground.scratch, ['-o', 'loop,errors=remount-ro', image], (folder) =>
    tryOnMount(stage, 'after an error, then checked', { beginning: 'installed', folder }, async (journey, site) => {
      syncTree(folder);
      const daemon = await startDaemon(site);
      const before = [
        ...(await journey.start('first', works)),
        ...(await journey.start('held', works, { workflowId: 'held' })),
      ];
      run('mount', '-o', 'remount,abort', folder);
      const during = [...(await journey.start('third', fails)), ...(await journey.ask(['runs', 'list'], fails))];
      daemon.process.kill('SIGKILL');
      const { isLate } = await daemon.answered;
      endProcesses(site);
      run('umount', folder);
      spawnSync('e2fsck', ['-fy', image], { stdio: 'ignore' });
      run('mount', '-o', 'loop', image, folder);
      run('touch', join(site.root, 'gate'));
      return [
        ...before,
        ...during,
        ...(isLate ? ['the daemon hung'] : []),
        ...(await journey.start('third', works)),
        ...(await journey.findTrouble({ mayEnd: ['failed'] })),
      ];
    }),
  );
}

/** What was copied there is durable before the trial begins: nobody else would have seen to that. */
function syncTree(folder: string): void {
  for (const name of ['', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })]) {
    const file = join(folder, name);
    if (lstatSync(file).isFile() || lstatSync(file).isDirectory()) {
      const descriptor = openSync(file, 'r');
      fsyncSync(descriptor);
      closeSync(descriptor);
    }
  }
}

/** The data directory lies in a firmware's read-only image; what is written goes to a small flash above it. */
async function tryOverlay(stage: Stage): Promise<void> {
  const { scratch, copies } = stage.ground;
  const firmware = mkdtempSync(join(scratch, 'firmware-'));
  cpSync(copies.queued, join(firmware, 'data'), { recursive: true });
  const lower = makeLower(scratch, firmware);
  stage.tally.note('isSquashfs', hasTool('mksquashfs') ? 1 : 0);
  await withMount(scratch, ['-o', 'loop,ro', lower], (root) =>
    withExt4(scratch, disk, async (flash) => {
      mkdirSync(join(flash, 'upper'));
      mkdirSync(join(flash, 'work'));
      const layers = `lowerdir=${root},upperdir=${join(flash, 'upper')},workdir=${join(flash, 'work')}`;
      await withMount(scratch, ['-t', 'overlay', '-o', layers, 'overlay'], (folder) =>
        tryOnMount(stage, 'read, write, fill, free', { beginning: 'there', folder }, (journey, site) =>
          workOnOverlay(journey, site, flash),
        ),
      );
    }),
  );
}

async function workOnOverlay(journey: Journey, site: Site, flash: string): Promise<readonly string[]> {
  const before = [...(await journey.ask(['status'], works)), ...(await journey.start('third', works))];
  const daemon = await startDaemon(site);
  fill(flash);
  const during = [...(await journey.start('fourth', fails)), ...(await journey.ask(['runs', 'list'], works))];
  const dead = await findDeath(daemon);
  empty(flash);
  return [
    ...before,
    ...during,
    ...dead,
    ...(await journey.start('fourth', works)),
    ...(await journey.endsBy(daemon)),
    ...(await daemon.stop()),
    ...(await journey.findTrouble()),
  ];
}

/** squashfs where it can be made; else an ext4 that is mounted read-only, which an overlay treats alike. */
function makeLower(scratch: string, content: string): string {
  const image = join(mkdtempSync(join(scratch, 'image-')), 'lower');
  if (hasTool('mksquashfs')) {
    run('mksquashfs', content, image, '-quiet', '-no-progress');
  } else {
    run('mkfs.ext4', '-q', '-F', '-d', content, image, `${disk.bytes / 1024}k`);
  }
  return existsSync(image) ? image : '';
}
