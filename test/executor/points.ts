// Every line of the launcher as the moment in which something happens to it: whoever comes to the line stands still
// there, by SIGSTOP, until the test has done its worst. Not a test itself.
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import { listSession, type ProcessRow } from '../../src/executor/session.ts';
import { launcherPoints, openHolds, textOfPoint } from './held-launcher.ts';
import { type SimulatedTime, simulateTime } from './simulated-time.ts';
import { openStand, type Stand, testEachShell } from './stand.ts';
import { turn } from './until.ts';

export const outputBytes = 40_000;

export type Scene = {
  readonly t: Test;
  readonly stand: Stand;
  readonly time: SimulatedTime;
  readonly attemptId: string;
  /** Who stands at the line. */
  readonly holder: ProcessRow;
  readonly where: string;
  readonly hasRun: () => boolean;
};

/** Simulated time goes on until something is over; real processes have the turns in between. */
export async function driveUntil(time: SimulatedTime, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await turn(20);
    time.advance(50);
  }
}

/** For what needs looks; without any, time stands still. */
export async function endOf({
  stand,
  time,
  attemptId,
}: Pick<Scene, 'stand' | 'time' | 'attemptId'>): Promise<AttemptEnd> {
  const ended = stand.endOf(attemptId);
  let isOver = false;
  void ended.then(() => {
    isOver = true;
  });
  await driveUntil(time, () => isOver);
  return ended;
}

/** No end may claim more, or less, than what happened. */
export function expectTrue({ t, where, hasRun }: Scene, end: AttemptEnd): void {
  const isUnstarted = end.kind === 'withdrawn' || end.kind === 'spawn-failed';
  t.notOk(isUnstarted && hasRun(), `${where}: ${JSON.stringify(end)}, and it ran`);
  t.notOk(
    end.kind === 'exited' && end.signal === null && !hasRun(),
    `${where}: ${JSON.stringify(end)}, and it never ran`,
  );
}

export function expectWhole({ t, where, hasRun }: Scene, end: AttemptEnd): void {
  t.match(end, { kind: 'exited', exitCode: 7, outputBytes, note: null }, where);
  t.ok(hasRun());
}

export function isEmpty(sessionId: number): boolean {
  return listSession(sessionId).every(({ isZombie }) => isZombie);
}

/**
 * Runs `worst` once for each line that a launcher, its pump or its child comes to. Run directories are made in the
 * stand's own, or wherever `folderOf` says.
 */
export function testEachPoint(
  name: string,
  worst: (scene: Scene) => Promise<void>,
  folderOf: (t: Test, stand: Stand) => string = (_, stand) => stand.runDirectory,
  skip: string | false = false,
): void {
  const body = async (t: Test, stand: Stand) => {
    let heldCount = 0;
    const folder = folderOf(t, stand);
    const holds = openHolds(stand.runDirectory);
    for (const point of launcherPoints) {
      const time = simulateTime();
      const runDirectory = path.join(folder, `${point}`);
      const held = openStand(t, { runDirectory, time, shell: stand.shell, segmentBytes: 8192 });
      const marker = path.join(stand.runDirectory, `marker-${point}`);
      const hasRun = () => existsSync(marker);
      holds.holdAt(runDirectory, point);
      const script = `: >'${marker}'; head -c ${outputBytes} /dev/zero; exit 7`;
      const attemptId = held.start({ argv: ['/bin/sh', '-c', script] });
      const where = `line ${point}, ${textOfPoint(point)}`;
      const next = holds.next();
      const holder = await Promise.race([next, held.endOf(attemptId).then(() => null)]);
      if (holder !== null) {
        heldCount += 1;
        await worst({ t, stand: held, time, attemptId, holder, where, hasRun });
      }
      await driveUntil(time, () => isEmpty(holder?.sessionId ?? held.sessionOf(attemptId)));
      await held.close();
      rmSync(runDirectory, { recursive: true });
    }
    holds.close();
    t.comment(`${heldCount} of ${launcherPoints.length} points`);
    t.ok(heldCount > 40, 'most of them are met');
  };
  testEachShell(name, body, { skip });
}
