// Reading an output while it is written, at full speed, and after its directory has gone.
import { rmSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { type OutputSource, openOutput, readTail } from '../../src/executor/output.ts';
import { writeAttempt } from '../runtime/outputs.ts';
import { exitedCode, testEachShell } from './stand.ts';
import { until } from './until.ts';

/** Every 8 bytes say where they are: `0000000`, `0000008`, … */
function isInPlace(offset: number, bytes: Buffer): boolean {
  const first = (8 - (offset % 8)) % 8;
  for (let at = first; at + 8 <= bytes.length; at += 8) {
    if (bytes.toString('latin1', at, at + 8) !== `${`${offset + at}`.padStart(7, '0')}\n`) {
      return false;
    }
  }
  return true;
}

/** Reads what is there now, from `offset` on; answers where it ended. */
function readOn(source: OutputSource, start: number, target: Buffer, check: (offset: number, bytes: Buffer) => void) {
  const { keptEnd } = source.look();
  let offset = start;
  while (offset < keptEnd) {
    const piece = source.read(offset, target);
    if (piece.bytes.length === 0) {
      break;
    }
    check(piece.offset, piece.bytes);
    offset = piece.offset + piece.bytes.length;
  }
  return offset;
}

testEachShell(
  'while segments alternate at full speed, no byte is ever read as another one',
  async (t, stand) => {
    // Through segments of 8 KiB: 250 alternations.
    const script = 'seq -f %07.0f 0 8 1999992';
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
    const source = openOutput(stand.directoryOf(attemptId), attemptId);
    const target = Buffer.alloc(3000);
    let isOver = false;
    stand.endOf(attemptId).then(() => {
      isOver = true;
    });
    let [offset, readBytes, wrong, back] = [0, 0, 0, 0];
    for (let last = false; !last; ) {
      last = isOver;
      offset = readOn(source, offset, target, (from, bytes) => {
        readBytes += bytes.length;
        wrong += isInPlace(from, bytes) ? 0 : 1;
        back += from < offset ? 1 : 0;
      });
      const tail = readTail(source, 500);
      wrong += tail.length === 0 || /^(?:\d{0,7}\n)?(?:\d{7}\n)*\d{0,7}$/.test(tail.toString()) ? 0 : 1;
      await setImmediate();
    }
    t.equal(exitedCode(await stand.endOf(attemptId)), 0);
    t.equal(offset, 2_000_000, 'the end is reached');
    t.same([wrong, back], [0, 0], 'nothing wrong, nothing twice');
    t.ok(readBytes > 24_576, `${readBytes} bytes were read, more than there are at the end`);
    source.close();
  },
  { segmentBytes: 8192 },
);

testEachShell('what was opened is readable to its end when the directory has gone', async (t, stand) => {
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'echo first; read x; head -c 10000 /dev/zero; echo last'] });
  const source = openOutput(stand.directoryOf(attemptId), attemptId);
  await until(() => source.look().totalBytes > 0);
  await stand.endOf(attemptId);
  stand.executor.release(attemptId);
  const state = source.look();
  t.match(state, { isEnded: true, isExact: true, totalBytes: 6 + 10_000 + 5 });
  t.equal(readTail(source, 5).toString(), 'last\n');
  source.close();
});

t.test('a directory that goes before anything was opened reads as nothing', async (t) => {
  const directory = t.testdir({ 'out.0': 'abc' });
  const source = openOutput(directory, 'at-1');
  rmSync(directory, { recursive: true });
  t.match(source.look(), { ranges: [], totalBytes: 0, isEnded: false });
  t.equal(source.read(0, Buffer.alloc(10)).bytes.length, 0);
  t.equal(readTail(source, 10).length, 0);
  source.close();
});

t.test('C020 the end of an output that goes on is shown without the beginning of a character', async (t) => {
  const directory = t.testdir();
  const bytes = Buffer.from('世界');
  for (let length = 0; length <= bytes.length; length += 1) {
    const source = writeAttempt(directory, 'at-1', bytes.subarray(0, length));
    const running = { ...source, look: () => ({ ...source.look(), isEnded: false }) };
    t.equal(readTail(running, 4096).toString(), '世界'.slice(0, Math.floor(length / 3)));
    t.notMatch(readTail(running, 4).toString(), '\ufffd');
    source.close();
  }
});
