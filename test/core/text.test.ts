import fc from 'fast-check';
import t from 'tap';
import { cutText } from '../../src/core/text.ts';

t.test('a short text is left as it is, a long one is cut between characters', async (t) => {
  t.equal(cutText('exit code 2', 64), 'exit code 2');
  t.equal(cutText('x'.repeat(10), 8), 'xxxxx…');
  t.equal(cutText('你好世界', 10), '你好…', 'a character of three bytes is not cut in half');
  t.equal(cutText('\ud800', 8), '\ufffd', 'a lone surrogate cannot be stored');
});

t.test('a cut text fits its bound, is well-formed, and begins as the whole one', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), fc.integer({ min: 3, max: 100 }), (text, bytesMax) => {
      const cut = cutText(text, bytesMax);
      return (
        Buffer.byteLength(cut) <= bytesMax &&
        cut.isWellFormed() &&
        text.toWellFormed().startsWith(cut.endsWith('…') && cut !== text ? cut.slice(0, -1) : cut)
      );
    }),
  );
  t.pass('no counterexample');
});
