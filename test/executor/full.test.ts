// A run directory that is full, before a start or at any moment of it: either no command runs and that is said, or it
// runs and its receipt is true.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import { signalProcess } from '../../src/executor/session.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { endOf, expectTrue, testEachPoint } from './points.ts';
import { mountSmallTmpfs, type SmallTmpfs, skipWithoutMounts } from './small-tmpfs.ts';
import { openStand, type Stand, testEachShell } from './stand.ts';

const { bootId } = realClock().observe();
const outputBytes = 30_000;

/** More than an attempt needs of either. */
const pagesMax = 14;
const inodesMax = 14;

function expectExact(t: Test, end: AttemptEnd, hasRun: boolean, what: string): void {
  if (end.kind === 'exited') {
    t.match(end, { exitCode: 7, signal: null, isForced: false }, what);
    t.ok(hasRun, what);
    t.ok(end.outputBytes === outputBytes || end.note !== null, `${what}: ${JSON.stringify(end)}`);
  } else {
    t.match(end, { kind: 'spawn-failed', errorCode: 'run_directory_full' }, what);
    t.notOk(hasRun, what);
  }
}

/** One attempt with so much left; false where not even its directory could be made. */
async function runWith(t: Test, scene: { stand: Stand; small: SmallTmpfs; marker: string }, left: Left) {
  const { stand, small, marker } = scene;
  const what = JSON.stringify(left);
  const attemptId = `at-${left.pages ?? 'x'}-${left.inodes ?? 'x'}`;
  small.leave(left);
  try {
    stand.executor.prepare(attemptId);
  } catch (error) {
    t.match(error, { code: 'full' }, what);
    t.notOk(existsSync(stand.directoryOf(attemptId)));
    return 'unprepared';
  }
  const script = `: >'${marker}'; head -c ${outputBytes} /dev/zero; exit 7`;
  stand.start({ attemptId, argv: ['/bin/sh', '-c', script] });
  const end = await stand.endOf(attemptId);
  expectExact(t, end, existsSync(marker), what);
  const { kind } = stand.executor.inspect(attemptId, bootId);
  t.ok(end.kind === 'exited' ? kind === 'ended' : kind === 'withdrawn' || kind === 'free', `${what}: ${kind}`);
  small.empty();
  stand.executor.release(attemptId);
  return end.kind;
}

type Left = { readonly pages: number | null; readonly inodes: number | null };

testEachShell(
  'with too little left a start fails and says so; with enough, it is whole',
  async (t, outer) => {
    const small = mountSmallTmpfs(t);
    const runDirectory = path.join(small.folder, 'run');
    const stand = openStand(t, { runDirectory, shell: outer.shell, segmentBytes: 8192 });
    const counts = (max: number) => Array.from({ length: max + 1 }, (_, count) => count);
    const lefts: Left[] = [
      ...counts(pagesMax).map((pages) => ({ pages, inodes: null })),
      ...counts(inodesMax).map((inodes) => ({ pages: null, inodes })),
      ...counts(inodesMax).map((both) => ({ pages: both, inodes: both })),
    ];
    const kinds: string[] = [];
    for (const left of lefts) {
      const marker = path.join(outer.runDirectory, `marker-${kinds.length}`);
      kinds.push(await runWith(t, { stand, small, marker }, left));
    }
    t.comment(kinds.join(' '));
    t.ok(
      ['unprepared', 'spawn-failed', 'exited'].every((kind) => kinds.includes(kind)),
      'all of them are met',
    );
    await stand.close();
  },
  { skip: skipWithoutMounts },
);

let small: SmallTmpfs;
testEachPoint(
  'at whatever line a run directory fills up, the record is true',
  async (scene) => {
    const { t, holder, where } = scene;
    small.leave({ pages: 0, inodes: 0 });
    signalProcess(holder, 'SIGCONT');
    const end = await endOf(scene);
    small.empty();
    expectTrue(scene, end);
    t.ok(end.kind === 'exited' || end.kind === 'spawn-failed', `${where}: ${end.kind}`);
    if (end.kind === 'spawn-failed') {
      t.equal(end.errorCode, 'run_directory_full', `${where}: ${end.errorSummary}`);
    }
  },
  (t) => {
    small = mountSmallTmpfs(t);
    return small.folder;
  },
  skipWithoutMounts,
);
