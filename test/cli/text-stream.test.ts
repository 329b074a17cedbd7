import fc from 'fast-check';
import t from 'tap';
import { neutralizeLines } from '../../src/cli/plain-text.ts';
import { createDecoder, createTextStream } from '../../src/cli/text-stream.ts';

function cut(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  let rest = bytes;
  for (const length of lengths) {
    pieces.push(rest.subarray(0, length));
    rest = rest.subarray(length);
  }
  return [...pieces, rest];
}

function stream(pieces: readonly Buffer[]): string {
  const text = createTextStream();
  return pieces.map((piece) => text.push(piece)).join('') + text.end();
}

t.test('C020 one byte at a time no character is torn', async (t) => {
  const bytes = Buffer.from('世界 🚀 é\n'.repeat(50));
  t.equal(stream([...bytes].map((byte) => Buffer.from([byte]))), bytes.toString());
});

t.test('however any bytes are cut into pieces, the text is the same, and safe', async (t) => {
  const anyBytes = fc.oneof(
    fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    fc.string({ unit: 'binary', maxLength: 20 }).map((text) => Buffer.from(text)),
    fc.string({ unit: fc.constantFrom('\r', '\n', '你', '\x1b', 'a') }).map((text) => Buffer.from(text)),
  );
  fc.assert(
    fc.property(anyBytes, fc.array(fc.nat(4)), (bytes, lengths) => {
      const whole = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
      const text = stream(cut(bytes, lengths));
      t.equal(text, neutralizeLines(whole));
      t.notMatch(text.replaceAll(/[\n\t]/g, ''), /[\p{Cc}\u2028-\u202e\u2066-\u2069]/u);
    }),
    { numRuns: 500 },
  );
});

t.test('what a terminal would obey is shown instead, also across pieces', async (t) => {
  const pieces = ['a\x1b', '[2Jb\x08\x08c\r', '\nd\r', 'e\u202ef\u2028g'].map((text) => Buffer.from(text));
  t.equal(stream(pieces), 'a\\x1b[2Jb\\x08\\x08c\nd\\x0de\\u202ef\\u2028g');
});

t.test('a decoder says how many bytes wait for the rest of their character', async (t) => {
  const decoder = createDecoder();
  t.same(decoder.push(Buffer.from([0x61, 0xe4, 0xbd])), { text: 'a', bytesWaiting: 2 });
  t.same(decoder.push(Buffer.from([0xa0])), { text: '你', bytesWaiting: 0 });
  t.same(decoder.push(Buffer.from([0xf0])), { text: '', bytesWaiting: 1 });
  t.equal(decoder.end(), '\ufffd');
  t.equal(decoder.end(), '');
});
