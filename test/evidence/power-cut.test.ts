// What a power cut may leave, on disks written by hand: each rule of the model.
import t from 'tap';
import { siteAt } from '../../edge-evidence/operation.ts';
import { cutImage, type Fate, type Item, listItems } from '../../edge-evidence/power-loss/cut.ts';
import { chooseFates } from '../../edge-evidence/power-loss/fates.ts';
import { listStates } from '../../edge-evidence/power-loss/states.ts';
import { createRandom } from '../../edge-evidence/random.ts';
import type { Disk } from '../../edge-evidence/recorder/disk.ts';
import type { Call } from '../../edge-evidence/recorder/recording.ts';
import { createCalls, diskAfter, file, rootPath, textsOf } from './hand-made.ts';

const bounds = { drawnMax: 30, edgesMax: 100 };

function texts(disk: Disk, ...fates: readonly Fate[]): Readonly<Record<string, string>> {
  return textsOf(cutImage(disk, listItems(disk), fates));
}

function allTexts(disk: Disk): ReadonlySet<string> {
  const items = listItems(disk);
  const chosen = chooseFates({ items, random: createRandom(1), ...bounds });
  return new Set([...chosen].map((fates) => JSON.stringify(texts(disk, ...fates))));
}

t.test('of two writes to one file, the later one may be there without the first', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('open', 'a');
  const disk = diskAfter({ a: file('----') }, [call, calls.write(fd, 0, '11'), calls.write(fd, 2, '22')]);
  t.same(texts(disk, 'none', 'all'), { a: '--22' });
  t.strictSame(allTexts(disk), new Set(['{"a":"----"}', '{"a":"11--"}', '{"a":"--22"}', '{"a":"1122"}']));
});

t.test('a write is torn at multiples of 512 bytes of its file, and any piece may be missing', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('open', 'a');
  const before = file('-'.repeat(1536));
  const disk = diskAfter({ a: before }, [call, calls.write(fd, 256, '1'.repeat(1024))]);
  const torn = texts(disk, { sector: 512, has: (piece) => piece === 1 });
  t.equal(torn['a'], `${'-'.repeat(512)}${'1'.repeat(512)}${'-'.repeat(512)}`);
  const whole = texts(disk, { sector: 4096, has: () => true });
  t.same(whole, texts(disk, 'all'), 'a piece of 4096 bytes holds all of it');
  t.ok(allTexts(disk).size >= 6, 'nothing, all, and both parts of it torn in either place');
});

t.test('a file may have its new length without its new bytes', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('open', 'a');
  const disk = diskAfter({ a: file('1') }, [call, calls.write(fd, 1, '234')]);
  t.same(texts(disk, 'zeros'), { a: '1000' });
});

t.test('a name may be there without the bytes of its file, and the bytes without the name', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('create', 'part', { created: true });
  const disk = diskAfter({ whole: file('old') }, [call, calls.write(fd, 0, 'new'), calls.rename('part', 'whole')]);
  t.same(texts(disk, 'all', 'none', 'all'), { whole: '' }, 'the rename is durable, the bytes are not');
  t.same(texts(disk, 'none', 'all', 'none'), { whole: 'old' });
  t.same(texts(disk, 'all', 'all', 'none'), { whole: 'old', part: 'new' });
  t.equal(allTexts(disk).size, 7, 'and each of them with zeros instead of the bytes');
});

t.test('a truncation is done or not, whatever was written before and behind it', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('open', 'a');
  const changes = [calls.write(fd, 4, '5'), calls.make('truncate', { fd, value: 1 }), calls.write(fd, 2, '9')];
  const disk = diskAfter({ a: file('1234') }, [call, ...changes]);
  t.same(texts(disk, 'all', 'none', 'none'), { a: '12345' });
  t.same(texts(disk, 'none', 'all', 'none'), { a: '1' });
  t.same(texts(disk, 'all', 'all', 'all'), { a: '109' });
  t.same(texts(disk, 'none', 'none', 'all'), { a: '1294' });
});

t.test(
  'where changes are many, the edges are looked at, and what is drawn is the same for the same seed',
  async (t) => {
    const calls = createCalls();
    const { call, fd } = calls.open('open', 'a');
    const writes = Array.from({ length: 20 }, (_, place) => calls.write(fd, place, 'x'));
    const disk = diskAfter({ a: file('-'.repeat(20)) }, [call, ...writes]);
    const items: readonly Item[] = listItems(disk);
    const draw = (seed: number) => [...chooseFates({ items, random: createRandom(seed), ...bounds })];
    t.same(draw(1), draw(1));
    t.notSame(draw(1), draw(2));
    const found = allTexts(disk);
    for (const edge of ['-'.repeat(20), 'x'.repeat(20), `xxx${'-'.repeat(17)}`, `-${'x'.repeat(19)}`]) {
      t.ok(found.has(JSON.stringify({ a: edge })), edge);
    }
  },
);

t.test('every disk is handed out once, and again where something was acknowledged since', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('open', 'a');
  const list: readonly Call[] = [call, calls.write(fd, 0, '2'), calls.make('answer', { fd: 1 }), calls.sync(fd)];
  const site = siteAt(rootPath, { bundle: '', mode: 'delete-extra' });
  const answer = { code: 0, signal: null, out: '', err: '' };
  const recorded = { site, before: new Map([['a', file('1')]]), calls: list, answer, after: new Map(), endFacts: '' };
  const options = { random: createRandom(1), ripe: bounds, between: bounds, acknowledgedAt: [0, 0, 0, 3, 3] };
  const found = [...listStates(recorded, options)].map(({ image, calls: count, isNew }) => [
    count,
    textsOf(image)['a'],
    isNew,
  ]);
  t.same(found, [
    [0, '1', true],
    [2, '2', true],
    [3, '1', false],
    [3, '2', false],
  ]);
});
