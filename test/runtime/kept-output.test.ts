// Kept output: what is cut, what goes first, what is never touched, and what a failing disk leaves.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { type OutputSource, openOutput, readRange } from '../../src/executor/output.ts';
import { openKept } from '../../src/runtime/kept-file.ts';
import { KeptOutput, type KeptOutputOptions } from '../../src/runtime/kept-output.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { keptFile, readWhole, writeAttempt } from './outputs.ts';

const KIB = 1024;

function open(t: Test, options: Partial<KeptOutputOptions> = {}) {
  const root = t.testdir();
  const directory = path.join(root, 'artifacts');
  const settings = { directory, bytesMax: 64 * KIB, quotaBytes: 1024 * KIB, clock: realClock() };
  const kept = new KeptOutput({ ...settings, isInFlight: () => false, ...options });
  const keep = async (attemptId: string, bytes: Uint8Array | string, runId = 'run-1') => {
    const source = writeAttempt(path.join(root, 'attempts', attemptId), attemptId, bytes);
    try {
      return await kept.keep({ runId, attemptId }, source);
    } finally {
      source.close();
    }
  };
  const read = (attemptId: string, runId = 'run-1') => readWhole(options.directory ?? directory, { runId, attemptId });
  return { root, directory, kept, keep, read };
}

t.test('what was kept is byte for byte what was written, in a file of its owner alone', async (t) => {
  const { directory, keep, read } = open(t);
  const bytes = Buffer.from(Array.from({ length: 5000 }, (_, index) => (index * 7) & 255));
  t.equal(await keep('at-1', bytes), true);
  t.ok(read('at-1') === bytes.toString('latin1'));
  t.equal(statSync(directory).mode & 0o777, 0o700);
  const file = keptFile(directory, { runId: 'run-1', attemptId: 'at-1' });
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.same(readdirSync(directory), [path.basename(file)]);
});

t.test('an empty output makes no file, and no directory', async (t) => {
  const { directory, keep, read } = open(t);
  t.equal(await keep('at-1', ''), false);
  t.notOk(existsSync(directory));
  t.equal(read('at-1'), null);
});

t.test(
  'a long output is cut between characters to its first and last part, and the file says what is missing',
  async (t) => {
    const { directory, keep } = open(t, { bytesMax: 10_000 });
    const text = `x${'世界'.repeat(20_000)}`;
    await keep('at-1', text);
    const reading = openKept(directory, { runId: 'run-1', attemptId: 'at-1' });
    t.equal(reading.kind, 'found');
    if (reading.kind !== 'found') {
      return;
    }
    const state = reading.source.look();
    const [first, last] = state.ranges;
    t.same([first?.start, last?.end, state.totalBytes], [0, 120_001, 120_001]);
    const kept = first!.end + last!.end - last!.start;
    t.ok(kept <= 10_000 && kept > 9_990, `${kept} bytes`);
    t.equal(readWhole(directory, { runId: 'run-1', attemptId: 'at-1' })!.length, kept);
    t.notMatch(
      Buffer.from(readWhole(directory, { runId: 'run-1', attemptId: 'at-1' })!, 'latin1').toString(),
      '\ufffd',
    );
    const target = Buffer.alloc(7);
    const gap = reading.source.read(first!.end, target);
    t.equal(gap.offset, last!.start, 'reading goes on behind the gap');
    t.equal(reading.source.read(state.keptEnd, target).bytes.length, 0);
    reading.source.close();
  },
);

t.test('from every offset exactly the bytes are read that were kept', async (t) => {
  const { directory, keep } = open(t, { bytesMax: 100 });
  const bytes = Buffer.from(Array.from({ length: 300 }, (_, index) => index & 127));
  await keep('at-1', bytes);
  const reading = openKept(directory, { runId: 'run-1', attemptId: 'at-1' });
  const source = reading.kind === 'found' ? reading.source : t.fail('it is there');
  for (let offset = 0; offset < bytes.length && typeof source === 'object'; offset += 1) {
    const piece = source.read(offset, Buffer.alloc(7));
    t.equal(piece.offset, offset >= 50 && offset < 250 ? 250 : offset);
    t.ok(bytes.subarray(piece.offset, piece.offset + piece.bytes.length).equals(piece.bytes));
    t.ok(piece.bytes.length > 0);
  }
});

t.test('beyond the quota the oldest goes first, whatever the clock said when each was kept', async (t) => {
  let wallMs = 2_000_000_000_000;
  const clock = { observe: () => ({ ...realClock().observe(), wallMs }) };
  const { keep, read } = open(t, { quotaBytes: 160 * KIB, clock });
  const bytes = Buffer.alloc(30 * KIB, 'x');
  for (const [index, step] of [0, -1_900_000_000_000, 3_600_000, -60_000, 5].entries()) {
    wallMs += step;
    await keep(`at-${index}`, bytes);
  }
  t.same(
    [0, 1, 2, 3, 4].map((index) => read(`at-${index}`) !== null),
    [true, true, true, true, true],
  );
  await keep('at-5', bytes);
  t.same(
    [0, 1, 2, 3, 4, 5].map((index) => read(`at-${index}`) !== null),
    [false, true, true, true, true, true],
  );
  await keep('at-6', Buffer.alloc(60 * KIB, 'y'));
  t.same(
    [1, 2, 3, 4, 5, 6].map((index) => read(`at-${index}`) !== null),
    [false, false, true, true, true, true],
  );
});

t.test('many outputs of 20 KB stay below the quota at every moment, and go a few at a time', async (t) => {
  const { directory, keep } = open(t, { quotaBytes: 500 * KIB });
  const bytes = Buffer.alloc(20_000, 'x');
  let [mostBytes, mostGone] = [0, 0];
  let before = 0;
  for (let index = 0; index < 200; index += 1) {
    await keep(`at-${index}`, bytes, `run-${index}`);
    const sizes = readdirSync(directory).map((name) => statSync(path.join(directory, name)).size - 125);
    mostBytes = Math.max(
      mostBytes,
      sizes.reduce((sum, size) => sum + size, 0),
    );
    mostGone = Math.max(mostGone, before + 1 - sizes.length);
    before = sizes.length;
  }
  t.ok(mostBytes <= 500 * KIB, `${mostBytes}`);
  t.ok(mostBytes > 450 * KIB, 'the quota is used');
  t.ok(mostGone > 0 && mostGone <= 3, `${mostGone}`);
});

t.test('many small outputs are bounded too: each counts as a block of the file system', async (t) => {
  const { directory, keep } = open(t, { quotaBytes: 40 * KIB, bytesMax: 4 * KIB });
  for (let index = 0; index < 30; index += 1) {
    await keep(`at-${index}`, 'x');
  }
  t.equal(readdirSync(directory).length, 10);
});

t.test(
  'what an attempt has left that has not ended is never removed; then there is no room, and that is said',
  async (t) => {
    const running = new Set(['at-0', 'at-1']);
    const { keep, read } = open(t, { quotaBytes: 100 * KIB, isInFlight: (attemptId) => running.has(attemptId) });
    const bytes = Buffer.alloc(40 * KIB, 'x');
    await keep('at-0', bytes);
    await keep('at-1', bytes);
    await t.rejects(keep('at-2', bytes), { code: 'full', message: /outputQuota/ });
    t.same(
      ['at-0', 'at-1', 'at-2'].map((id) => read(id) !== null),
      [true, true, false],
    );
    running.delete('at-1');
    await keep('at-2', bytes);
    t.same(
      ['at-0', 'at-1', 'at-2'].map((id) => read(id) !== null),
      [true, false, true],
    );
  },
);

t.test('kept again after a crash, an output is counted once', async (t) => {
  const { root, directory, keep, read } = open(t, { quotaBytes: 100 * KIB });
  await keep('at-1', Buffer.alloc(60 * KIB, 'x'));
  const again = new KeptOutput({
    directory,
    bytesMax: 64 * KIB,
    quotaBytes: 100 * KIB,
    clock: realClock(),
    isInFlight: () => false,
  });
  const source = writeAttempt(path.join(root, 'attempts', 'at-1'), 'at-1', Buffer.alloc(61 * KIB, 'y'));
  await again.keep({ runId: 'run-1', attemptId: 'at-1' }, source);
  source.close();
  t.equal(read('at-1')?.length, 61 * KIB);
  await keep('at-2', Buffer.alloc(30 * KIB, 'x'));
  t.not(read('at-1'), null);
});

t.test('a sweep removes halves and what belongs to no attempt, and nothing else', async (t) => {
  const { directory, kept, keep, read } = open(t, { isInFlight: (attemptId) => attemptId === 'at-live' });
  await keep('at-1', 'a', 'run-1');
  await keep('at-2', 'b', 'run-1');
  await keep('at-3', 'c', 'run-gone');
  await keep('at-4', 'd', 'run-damaged');
  await keep('at-live', 'e', 'run-new');
  writeFileSync(path.join(directory, 'at-5@run-1.out.partial'), 'half');
  writeFileSync(path.join(directory, 'at-live@run-new.out.partial'), 'being written');
  writeFileSync(path.join(directory, 'notes.txt'), 'not ours');
  await kept.sweep(async (runId) => {
    if (runId === 'run-damaged') {
      throw new RangeError('damaged');
    }
    return new Set(runId === 'run-1' ? ['at-1'] : []);
  });
  t.same(readdirSync(directory).sort(), [
    'at-1@run-1.out',
    'at-4@run-damaged.out',
    'at-live@run-new.out',
    'at-live@run-new.out.partial',
    'notes.txt',
  ]);
  t.equal(read('at-1'), 'a');
});

t.test('a sweep that is told to end asks for nothing more', async (t) => {
  const { kept, keep, read } = open(t);
  await keep('at-1', 'a', 'run-1');
  await keep('at-2', 'b', 'run-2');
  let asked = 0;
  await kept.sweep(async () => {
    asked += 1;
    kept.close();
    return new Set();
  });
  t.equal(asked, 1);
  t.same([read('at-1', 'run-1'), read('at-2', 'run-2')], ['a', 'b']);
});

t.test('what is damaged is told apart from what is not there', async (t) => {
  const { directory, keep } = open(t);
  const place = { runId: 'run-1', attemptId: 'at-1' };
  const file = keptFile(directory, place);
  await keep('at-1', 'some output\n');
  const whole = readFileSync(file);
  for (const bytes of [
    whole.subarray(0, -1),
    whole.subarray(1),
    Buffer.alloc(0),
    Buffer.from('x'),
    Buffer.alloc(200),
  ]) {
    writeFileSync(file, bytes);
    t.same(openKept(directory, place), { kind: 'damaged', file });
  }
  writeFileSync(file, whole);
  t.equal(openKept(directory, place).kind, 'found');
  t.same(openKept(directory, { ...place, attemptId: 'at-2' }), { kind: 'absent' });
});

/** Null where this user may not; the answer ends it. */
function mountSmall(directory: string): (() => void) | null {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k,mode=700', 'none', directory], { stdio: 'ignore' });
    return () => execFileSync('umount', [directory]);
  } catch {
    return null;
  }
}

t.test('a full disk leaves no half of an output, and the next is kept once there is space', async (t) => {
  const { root, directory, keep, read } = open(t);
  mkdirSync(directory, { mode: 0o700 });
  const unmount = mountSmall(directory);
  if (unmount === null) {
    t.pass('this user cannot mount a small file system', { skip: true });
    return;
  }
  try {
    await keep('at-1', Buffer.alloc(60 * KIB, 'x'));
    await t.rejects(keep('at-2', Buffer.alloc(64 * KIB, 'y')), { code: 'ENOSPC' });
    t.same(readdirSync(path.join(root, 'artifacts')), ['at-1@run-1.out']);
    await keep('at-3', 'short');
    t.equal(read('at-3'), 'short');
  } finally {
    unmount();
  }
});

t.test('what is removed while it is read is read to its end', async (t) => {
  const { directory, keep } = open(t);
  const place = { runId: 'run-1', attemptId: 'at-1' };
  await keep('at-1', Buffer.alloc(50_000, 'x'));
  const reading = openKept(directory, place);
  unlinkSync(keptFile(directory, place));
  t.ok(
    reading.kind === 'found' && readRange(reading.source, { start: 0, end: 50_000 }).equals(Buffer.alloc(50_000, 'x')),
  );
  if (reading.kind === 'found') {
    reading.source.close();
  }
});

t.test('a large output is copied in pieces, others in between, and costs memory for none of it', async (t) => {
  const bytesMax = 32 * 1024 * KIB;
  const { root, directory, kept } = open(t, { bytesMax, quotaBytes: 2 * bytesMax });
  const bytes = Buffer.alloc(1024 * KIB, 'x');
  const file = path.join(root, 'attempts', 'at-1');
  writeAttempt(file, 'at-1', '').close();
  for (let count = 0; count < 32; count += 1) {
    writeFileSync(path.join(file, 'out.0'), bytes, { flag: 'a' });
  }
  const source = openOutput(file, 'at-1');
  let turns = 0;
  const count = () => {
    turns += 1;
    pending = setImmediate(count);
  };
  let pending = setImmediate(count);
  const before = process.memoryUsage();
  let most = 0;
  const watched: OutputSource = {
    ...source,
    read(offset, target) {
      const { arrayBuffers } = process.memoryUsage();
      most = Math.max(most, arrayBuffers - before.arrayBuffers);
      return source.read(offset, target);
    },
  };
  await kept.keep({ runId: 'run-1', attemptId: 'at-1' }, watched);
  clearImmediate(pending);
  source.close();
  t.equal(statSync(keptFile(directory, { runId: 'run-1', attemptId: 'at-1' })).size > bytesMax, true);
  t.ok(most < 1024 * KIB, `${most} bytes of buffers`);
  t.ok(turns > 100, `${turns} turns of the event loop meanwhile`);
});
