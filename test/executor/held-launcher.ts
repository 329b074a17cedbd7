// A launcher that stops itself at a chosen line, once, by SIGSTOP: every moment of a start can be met without a sleep.
// Not a test itself.
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { launcherScript } from '../../src/executor/scripts.generated.ts';
import { type ProcessRow, readProcess } from '../../src/executor/session.ts';
import { until } from './until.ts';

const lines = launcherScript.split('\n');
const firstPoint = lines.indexOf('set -u') + 1;

/**
 * The numbers of the lines before which a launcher can be held: all that do something, and the end. Nobody outside
 * could tell a moment before an assignment, or the end of a list, from the one after it.
 */
export const launcherPoints: readonly number[] = lines.flatMap((line, index) => {
  const isCommand = /^\s*[^\s#]/.test(line);
  const isNothing = /^\s*([a-z_0-9]+=[^()]*|fi|else|done|[a-z_]+\(\) \{|[})])$/.test(line);
  const isPoint = index >= firstPoint && ((isCommand && !isNothing) || index === lines.length - 1);
  return isPoint ? [index + 1] : [];
});

export function textOfPoint(point: number): string {
  return lines[point - 1]!.trim();
}

/** The line that begins so. */
export function pointOf(start: string): number {
  return launcherPoints.find((point) => textOfPoint(point).startsWith(start))!;
}

const holdFunction = (fifo: string) => `
is_held=
hold() {
  held_status=$?
  if [ -z "$is_held" ]; then
    is_held=yes
    read -r holder holder_rest </proc/self/stat
    echo "$holder" >'${fifo}'
    kill -STOP "$holder"
  fi
  return $held_status
}`;

export type Holds = {
  /** Puts a launcher that is held at that line in the place of a run directory's own. */
  holdAt(runDirectory: string, point: number): void;
  /** The next process that is held, when it stands. */
  next(): Promise<ProcessRow>;
  close(): void;
};

/** `folder` is the test's own. */
export function openHolds(folder: string): Holds {
  const fifo = path.join(folder, 'held.fifo');
  execFileSync('mkfifo', [fifo]);
  const writer = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
  const reader = new Socket({ fd: openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK), writable: false });
  // Whoever asked for an earlier one, of a launcher that came by no such line, is never answered.
  let meet: (pid: number) => void = () => {};
  reader.on('data', (data) => meet(Number(data)));
  return {
    holdAt(runDirectory, point) {
      const before = lines.slice(0, firstPoint);
      const held = [...lines.slice(firstPoint, point - 1), 'hold', ...lines.slice(point - 1)];
      writeFileSync(path.join(runDirectory, 'launcher.sh'), [...before, holdFunction(fifo), ...held].join('\n'));
    },
    async next() {
      const pid = await new Promise<number>((resolve) => {
        meet = resolve;
      });
      await until(() => readProcess(pid)?.isStopped === true);
      return readProcess(pid)!;
    },
    close() {
      reader.destroy();
      closeSync(writer);
    },
  };
}
