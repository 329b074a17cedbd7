// What recorded calls leave of a disk: for the running system, and for certain.
import t from 'tap';
import { EvidenceError } from '../../edge-evidence/operation.ts';
import { cutImage, listItems } from '../../edge-evidence/power-loss/cut.ts';
import { isSharedMemory, withoutSharedMemory } from '../../edge-evidence/recorder/disk.ts';
import { createCalls, directory, diskAfter, file, liveTexts, textsOf } from './hand-made.ts';

/** The disk when everything that is not certain is missing. */
function certainTexts(disk: ReturnType<typeof diskAfter>): Readonly<Record<string, string>> {
  const items = listItems(disk);
  return textsOf(
    cutImage(
      disk,
      items,
      items.map(() => 'none'),
    ),
  );
}

t.test('the running system sees every write at once, and nothing of it is certain', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('open', 'a');
  const disk = diskAfter({ a: file('before') }, [call, calls.write(fd, 2, 'XX'), calls.write(fd, 8, 'end')]);
  t.same(liveTexts(disk), { a: 'beXXre00end' });
  t.same(certainTexts(disk), { a: 'before' });
});

t.test('a sync of a file makes its bytes, its length and its mode certain, and not its name', async (t) => {
  const calls = createCalls();
  const made = calls.open('create', 'new', { created: true });
  const kept = calls.open('open', 'old');
  const disk = diskAfter({ old: file('long text') }, [
    made.call,
    calls.write(made.fd, 0, 'text'),
    calls.sync(made.fd),
    kept.call,
    calls.make('truncate', { fd: kept.fd, value: 4 }),
    calls.make('chmod', { fd: kept.fd, mode: 0o644 }),
    calls.sync(kept.fd),
  ]);
  t.same(liveTexts(disk), { old: 'long', new: 'text' });
  t.same(certainTexts(disk), { old: 'long' });
  t.equal(listItems(disk).length, 1, 'only the name is on its way');
});

t.test('a sync of a directory makes its names certain, not the bytes behind them', async (t) => {
  const calls = createCalls();
  const made = calls.open('create', 'd/new', { created: true });
  const folder = calls.open('open', 'd');
  const disk = diskAfter({ d: directory, 'd/gone': file('x') }, [
    made.call,
    calls.write(made.fd, 0, 'text'),
    calls.unlink('d/gone'),
    folder.call,
    calls.sync(folder.fd),
  ]);
  t.same(certainTexts(disk), { d: '-', 'd/new': '' });
});

t.test('a rename is certain with the directory that it led to, both names at once', async (t) => {
  const calls = createCalls();
  const rename = calls.rename('a/x', 'b/y');
  const [from, to] = [calls.open('open', 'a'), calls.open('open', 'b')];
  const before = { a: directory, b: directory, 'a/x': file('x'), 'b/y': file('y') };
  const renamed = [rename, from.call, calls.sync(from.fd)];
  t.same(certainTexts(diskAfter(before, renamed)), { a: '-', b: '-', 'a/x': 'x', 'b/y': 'y' });
  t.same(certainTexts(diskAfter(before, [...renamed, to.call, calls.sync(to.fd)])), { a: '-', b: '-', 'b/y': 'x' });
});

t.test('a descriptor keeps its file under another name, and after its name is gone', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('open', 'a');
  const disk = diskAfter({ a: file('1') }, [call, calls.rename('a', 'b'), calls.write(fd, 0, '2')]);
  t.same(liveTexts(disk), { b: '2' });
  disk.apply(calls.unlink('b'));
  disk.apply(calls.write(fd, 0, '3'));
  t.same(liveTexts(disk), {});
});

t.test('an open that truncates, links, and directories are told apart', async (t) => {
  const calls = createCalls();
  const { call } = calls.open('create', 'a', { value: 0o1001 });
  const disk = diskAfter({ a: file('text') }, [
    call,
    calls.make('mkdir', { path: 'd', mode: 0o755 }),
    calls.make('symlink', { path: 'd/l', data: Buffer.from('where') }),
    calls.make('link', { path: 'a', data: Buffer.from('/site/same') }),
    calls.make('mkdir', { path: 'gone', mode: 0o755 }),
    calls.make('rmdir', { path: 'gone' }),
  ]);
  t.same(liveTexts(disk), { a: '', d: '-', 'd/l': 'to where', same: '' });
});

t.test('a call that failed changes nothing', async (t) => {
  const calls = createCalls();
  const disk = diskAfter({ a: file('1') }, [calls.make('unlink', { path: 'a', result: -13 })]);
  t.same(liveTexts(disk), { a: '1' });
});

t.test('what moves data without a write is refused, but for shared memory', async (t) => {
  const calls = createCalls();
  const plain = calls.open('open', 'a');
  const shared = calls.open('open', 'a-shm');
  const disk = diskAfter({ a: file('1'), 'a-shm': file('2') }, [plain.call, shared.call]);
  disk.apply(calls.make('map', { fd: shared.fd }));
  t.throws(() => disk.apply(calls.make('map', { fd: plain.fd })), EvidenceError);
  t.throws(() => disk.apply(calls.make('foreign', { fd: plain.fd })), EvidenceError);
  t.throws(() => disk.apply(calls.write(99, 0, 'x')), EvidenceError, 'a descriptor that was never opened');
  t.ok(isSharedMemory('a-shm'));
  t.notOk(withoutSharedMemory(new Map([['a-shm', file('2')]])).has('a-shm'));
});
