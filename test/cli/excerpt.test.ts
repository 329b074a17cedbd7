import fc from 'fast-check';
import t from 'tap';
import { lastLineOf, tailBytes, takeExcerpt } from '../../src/cli/excerpt.ts';

const bytes = (text: string) => Buffer.from(text);

const whole = (text: string | Buffer) => {
  const tail = Buffer.from(text);
  return { tail, totalBytes: tail.length };
};

t.test('an excerpt is the last lines and the number of those before', async (t) => {
  t.same(takeExcerpt(whole('a\nb\nc\n\n'), 2), { lines: ['b', 'c'], before: { lines: 1 } });
  t.same(takeExcerpt(whole('a\r\nb\r\n'), 2), { lines: ['a', 'b'], before: null });
  t.same(takeExcerpt(whole('a'), 2), { lines: ['a'], before: null });
  t.same(takeExcerpt(whole(''), 2), { lines: [], before: null });
  t.same(takeExcerpt(whole('\x1b[31mred\xff'), 2), { lines: ['\\x1b[31mredÿ'], before: null });
  t.same(takeExcerpt(whole(Buffer.from([0x61, 0xff])), 2), { lines: ['a\ufffd'], before: null });
});

t.test('of an output that is longer than what was looked at, the bytes before are counted', async (t) => {
  const excerpt = takeExcerpt({ tail: bytes('end of a line\nb\nc\n'), totalBytes: 1000 }, 2);
  t.same(excerpt, { lines: ['b', 'c'], before: { bytes: 1000 - 'b\nc\n'.length } });
});

t.test('a line without an end is told by its beginning', async (t) => {
  const [line = ''] = takeExcerpt(whole('x'.repeat(60_000)), 20).lines;
  t.match(line, /^x{397}\.\.\.$/);
  t.match(lastLineOf(bytes('y'.repeat(4096))), /^y{197}\.\.\.$/);
});

t.test('the last line is the last that is not blank; of a progress bar what it shows last', async (t) => {
  t.equal(lastLineOf(bytes('one\ntwo\n\n  \n')), 'two');
  t.equal(lastLineOf(bytes('10%\r20%\r30%')), '30%');
  t.equal(lastLineOf(bytes('\n \n')), null);
});

t.test('a tail has at most so many lines, and is the exact end', async (t) => {
  t.equal(`${tailBytes(bytes('a\nb\nc\n'), 2)}`, `${bytes('b\nc\n')}`);
  t.equal(`${tailBytes(bytes('a\nb\nc'), 1)}`, `${bytes('c')}`);
  t.equal(`${tailBytes(bytes('a\nb'), 5)}`, `${bytes('a\nb')}`);
  t.equal(`${tailBytes(bytes('\n\n'), 1)}`, `${bytes('\n')}`);
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', 'b', '\n') }), fc.integer({ min: 1, max: 6 }), (text, lines) => {
      const tail = Buffer.from(tailBytes(bytes(text), lines)).toString();
      const all = text.split('\n');
      const isEnded = text.endsWith('\n');
      const expected = all.slice(-(lines + (isEnded ? 1 : 0))).join('\n');
      t.equal(tail, text === '' ? '' : expected);
    }),
    { numRuns: 300 },
  );
});
