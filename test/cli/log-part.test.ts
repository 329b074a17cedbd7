// Which part of an output is shown, and how much is read for it.
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { tailBytes } from '../../src/cli/excerpt.ts';
import { findPart, type LogPart, logPart, readPieces } from '../../src/cli/log-part.ts';
import { type OutputSource, openOutput } from '../../src/executor/output.ts';
import { bytesRead } from '../runtime/outputs.ts';

/** An output in three segments: what lies between the first and the second was dropped. */
function openSegments(
  t: Test,
  bytes: Buffer,
  { first, second, third }: { first: number; second: number; third: number },
) {
  const directory = path.join(t.testdir(), 'at-1');
  mkdirSync(directory);
  writeFileSync(path.join(directory, 'out.0'), bytes.subarray(0, first));
  writeFileSync(path.join(directory, 'out.1'), bytes.subarray(second, third));
  writeFileSync(path.join(directory, 'out.2'), bytes.subarray(third));
  writeFileSync(path.join(directory, 'count'), `ql-count-1 at-1 ${second} ${third} 0 done end\n`);
  const source = openOutput(directory, 'at-1');
  t.teardown(() => source.close());
  return source;
}

async function readPart(source: OutputSource, part: LogPart, isRaw = true) {
  const range = findPart(source, part, { isRaw });
  const pieces: Buffer[] = [];
  const missing: [number, number][] = [];
  const end = await readPieces(source, range, {
    bytes: async (_offset, bytes) => void pieces.push(Buffer.from(bytes)),
    missing: (offset, count) => void missing.push([offset, count]),
  });
  return { range, end, missing, bytes: Buffer.concat(pieces) };
}

const all: LogPart = { kind: 'all' };
const lines = (count: number): LogPart => ({ kind: 'lines', lines: count, bytesMax: Number.POSITIVE_INFINITY });

t.test('a terminal is shown the end, a program everything, and either what it asks for', async (t) => {
  t.match(logPart({}, { isTerminal: true }), { kind: 'lines', lines: 200 });
  t.same(logPart({}, { isTerminal: false }), all);
  t.same(logPart({ all: true }, { isTerminal: true }), all);
  t.same(logPart({ json: true }, { isTerminal: true }), all);
  t.same(logPart({ tail: 3 }, { isTerminal: false }), lines(3));
  t.same(logPart({ offset: 7, bytes: 5 }, { isTerminal: true }), { kind: 'from', offset: 7, bytes: 5 });
  t.same(logPart({ bytes: 5 }, { isTerminal: true }), { kind: 'last', bytes: 5 });
});

t.test('the last lines are those of the whole, wherever the output is cut into segments', async (t) => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '你'), maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(text, fc.nat(60), fc.nat(60), fc.integer({ min: 1, max: 6 }), async (text, one, other, count) => {
      const bytes = Buffer.from(text);
      const [first, third] = [Math.min(one, other, bytes.length), Math.min(Math.max(one, other), bytes.length)];
      const source = openSegments(t, bytes, { first, second: first, third });
      t.ok((await readPart(source, lines(count), false)).bytes.equals(tailBytes(bytes, count)), JSON.stringify(text));
    }),
    { numRuns: 200 },
  );
});

t.test('what was dropped is said where it was, and counts as no line', async (t) => {
  const source = openSegments(t, Buffer.from('one\ntwo\n.....three\nfour\n'), { first: 8, second: 13, third: 19 });
  const whole = await readPart(source, all);
  t.same([`${whole.bytes}`, whole.missing], ['one\ntwo\nthree\nfour\n', [[8, 5]]]);
  t.same(`${(await readPart(source, lines(2))).bytes}`, 'three\nfour\n');
  const three = await readPart(source, lines(3));
  t.same([`${three.bytes}`, three.missing], ['two\nthree\nfour\n', [[8, 5]]]);
  const page = await readPart(source, { kind: 'from', offset: 10, bytes: 6 });
  t.same([`${page.bytes}`, page.missing, page.range], ['thr', [[10, 3]], { start: 10, end: 16 }]);
});

t.test('page by page, from every beginning, the whole output comes exactly once', async (t) => {
  const bytes = createHash('sha512').update('pages').digest();
  const source = openSegments(t, bytes, { first: 20, second: 20, third: 41 });
  for (const size of [1, 7, 20, 21, 64, 1000]) {
    const pages: Buffer[] = [];
    for (let offset = 0; offset < bytes.length; ) {
      const page = await readPart(source, { kind: 'from', offset, bytes: size });
      pages.push(page.bytes);
      offset = page.range.end;
    }
    t.ok(Buffer.concat(pages).equals(bytes), `pages of ${size}`);
  }
  t.same((await readPart(source, { kind: 'from', offset: 1000, bytes: 5 })).bytes.length, 0);
});

t.test('a page of text is cut between characters, and the next one begins where it ends', async (t) => {
  const text = '世界你好'.repeat(10);
  const source = openSegments(t, Buffer.from(text), { first: 7, second: 7, third: 50 });
  let [shown, offset] = ['', 0];
  while (offset < Buffer.byteLength(text)) {
    const page = await readPart(source, { kind: 'from', offset, bytes: 10 }, false);
    shown += page.bytes.toString();
    t.ok(page.range.end > offset && page.range.end - page.range.start <= 10);
    offset = page.range.end;
  }
  t.equal(shown, text);
  t.equal(`${(await readPart(source, { kind: 'last', bytes: 8 }, false)).bytes}`, '你好');
  t.equal(`${(await readPart(source, { kind: 'from', offset: 1, bytes: 5 }, false)).bytes}`, '界');
});

t.test('C022 the end of 50 MB is found by reading its end alone, and a page by reading a page', async (t) => {
  const directory = path.join(t.testdir(), 'at-1');
  mkdirSync(directory);
  const line = 'x'.repeat(99);
  const block = Buffer.from(`${line}\n`.repeat(5_000));
  writeFileSync(path.join(directory, 'out.0'), '');
  for (let count = 0; count < 100; count += 1) {
    writeFileSync(path.join(directory, 'out.0'), block, { flag: 'a' });
  }
  writeFileSync(path.join(directory, 'count'), 'ql-count-1 at-1 - - 0 done end\n');
  const source = openOutput(directory, 'at-1');
  const measure = async (part: LogPart) => {
    const before = bytesRead();
    const { bytes } = await readPart(source, part, false);
    return { bytes, read: bytesRead() - before };
  };
  const end = await measure(logPart({}, { isTerminal: true }));
  t.equal(end.bytes.length, 200 * 100);
  t.ok(end.read < 300_000, `${end.read} bytes were read`);
  const page = await measure({ kind: 'from', offset: 25_000_000, bytes: 65_536 });
  t.equal(page.bytes.length, 65_536);
  t.ok(page.read < 300_000, `${page.read} bytes were read`);
  source.close();
});

t.test('one line without an end is shown by its last part', async (t) => {
  const source = openSegments(t, Buffer.from('你'.repeat(100_000)), { first: 1000, second: 1000, third: 200_000 });
  const { range, bytes } = await readPart(source, logPart({}, { isTerminal: true }), false);
  t.equal(range.end, 300_000);
  t.ok(bytes.length <= 65_536 && bytes.length > 65_530, `${bytes.length}`);
  t.notMatch(bytes.toString(), '\ufffd');
});

t.test(
  'a page that is smaller than a character holds that one, so that whoever goes on comes to the end',
  async (t) => {
    const bytes = Buffer.from('a你好b');
    const source = openSegments(t, bytes, { first: 4, second: 4, third: 4 });
    const pages: string[] = [];
    for (let offset = 0; offset < bytes.length; ) {
      const page = await readPart(source, { kind: 'from', offset, bytes: 1 }, false);
      pages.push(page.bytes.toString());
      offset = page.end;
    }
    t.same(pages, ['a', '你', '好', 'b']);
  },
);
