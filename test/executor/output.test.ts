// Output: byte-exact, bounded with true counts, readable while it is written, whatever the command does to the pipe.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { attemptDirectory, readIdentity } from '../../src/executor/attempt-files.ts';
import { measureOutput } from '../../src/executor/output.ts';
import { readProcess, signalProcess } from '../../src/executor/session.ts';
import { collectOutput, readOutput } from './collected.ts';
import { exitedCode, testEachShell } from './stand.ts';
import { until } from './until.ts';

const megabyte = 1_000_000;

testEachShell(
  'C019 50 MB are bounded, with true counts and the exit code kept',
  async (t, stand) => {
    const script = 'yes 0123456789abcde | head -c 50000000; echo the end; exit 3';
    const { end, attemptId } = await stand.run({ argv: ['/bin/sh', '-c', script] });
    t.match(end, { kind: 'exited', exitCode: 3, outputBytes: 50 * megabyte + 8, outputTruncated: true, note: null });
    const output = stand.collect(attemptId);
    t.equal(output.totalBytes, 50 * megabyte + 8);
    t.equal(output.head.length + output.omittedBytes + output.tail.length, output.totalBytes);
    t.ok(output.head.length + output.tail.length <= 256 * 1024);
    t.ok(output.head.length + output.tail.length > 200 * 1024, 'the bound is used');
    const line = '0123456789abcde\n';
    t.equal(output.head.toString(), line.repeat(10_000).slice(0, output.head.length));
    const expected = `${line.repeat(20_000)}the end\n`;
    t.equal(output.tail.toString(), expected.slice(-output.tail.length));
  },
  { segmentBytes: 512 * 1024 },
);

testEachShell('every byte value is kept, NUL and line ends included', async (t, stand) => {
  const bytes = Buffer.from(Array.from({ length: 60_000 }, (_, index) => (index * 7 + (index >> 8)) & 255));
  const file = path.join(stand.runDirectory, 'bytes');
  writeFileSync(file, bytes);
  const { end, attemptId } = await stand.run({ argv: ['/bin/cat', file] });
  t.match(end, { outputBytes: bytes.length, outputTruncated: false });
  t.ok(stand.collect(attemptId).head.equals(bytes));
});

testEachShell('C020 many small writes of a multi-byte character lose nothing', async (t, stand) => {
  const script = 'i=0; while [ $i -lt 5000 ]; do printf 你你你你你你你你你你; i=$((i+1)); done';
  const { end, output } = await stand.run({ argv: ['/bin/sh', '-c', script] });
  t.equal(exitedCode(end), 0);
  t.ok(output === '你'.repeat(50_000), 'no replacement character');
});

testEachShell(
  'C020 a character that comes byte by byte is whole, and there to be read as it comes',
  async (t, stand) => {
    const gate = path.join(stand.runDirectory, 'gate');
    execFileSync('mkfifo', [gate]);
    const held = openSync(gate, 'r+');
    const bytes = [...Buffer.from('世界')];
    const writes = bytes.map((byte) => `printf '\\${byte.toString(8)}'; read x <&3`);
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', `exec 3<'${gate}'; ${writes.join('; ')}`] });
    const directory = stand.directoryOf(attemptId);
    for (let length = 1; length <= bytes.length; length += 1) {
      await until(() => readOutput(directory, attemptId, { offset: 0, bytesMax: 10 }).bytes.length === length);
      writeFileSync(held, 'go\n');
    }
    t.match(await stand.endOf(attemptId), { outputBytes: 6, outputTruncated: false });
    t.equal(stand.collect(attemptId).head.toString(), '世界');
    closeSync(held);
  },
);

testEachShell('a cut falls between characters', async (t, stand) => {
  const { attemptId } = await stand.run({
    argv: ['/bin/sh', '-c', 'printf x; yes 世界 | tr -d "\\n" | head -c 3000000'],
  });
  const { head, tail, omittedBytes, totalBytes } = stand.collect(attemptId);
  t.equal(head.length + omittedBytes + tail.length, totalBytes);
  t.notMatch(`${head}${tail}`, /\uFFFD/);
  t.equal(
    tail
      .toString()
      .slice(0, 1)
      .match(/[世界]/)?.length,
    1,
  );
});

testEachShell('a command without output leaves an empty one', async (t, stand) => {
  const { end, output } = await stand.run({ argv: ['/bin/true'] });
  t.match(end, { outputBytes: 0, outputTruncated: false });
  t.equal(output, '');
});

testEachShell(
  'output is readable by offset while it is written, and what was dropped is skipped, never invented',
  async (t, stand) => {
    // 300 lines of 1000 bytes for segments of 8 KiB; the command goes on when the test has read what there is.
    const gate = path.join(stand.runDirectory, 'gate');
    const writeLines = "i=100; while [ $i -lt 400 ]; do printf '%0999d\\n' $i; i=$((i+1)); done";
    const script = `mkfifo '${gate}'; ${writeLines}; read x <'${gate}'; echo last`;
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
    const directory = stand.directoryOf(attemptId);
    let [offset, received] = [0, ''];
    const read = () => {
      const piece = readOutput(directory, attemptId, { offset, bytesMax: 4096 });
      t.ok(piece.offset >= offset && piece.bytes.length <= 4096);
      received += `${piece.offset > offset ? '\n[gap]\n' : ''}${piece.bytes.toString('latin1')}`;
      offset = piece.nextOffset;
      return piece;
    };
    await until(() => read().nextOffset === 300_000);
    t.equal(
      readOutput(directory, attemptId, { offset: 0, bytesMax: 10 }).bytes.toString(),
      '0000000000',
      'the first stays',
    );
    t.notOk(read().isEnded);
    writeFileSync(gate, 'go\n');
    await stand.endOf(attemptId);
    const last = read();
    t.equal(last.bytes.toString(), 'last\n');
    t.ok(last.isEnded);
    const lines = received.split('\n').filter((line) => /^0+[0-9]{3}$/.test(line) && line.length === 999);
    const numbers = lines.map(Number);
    t.same(
      numbers,
      [...numbers].sort((one, other) => one - other),
      'in order',
    );
    t.equal(numbers.at(-1), 399);
    t.equal(new Set(numbers).size, numbers.length, 'nothing twice');
  },
  { segmentBytes: 8192 },
);

testEachShell(
  'a killed pump ends the command by SIGPIPE instead of blocking it, and the counts say so',
  async (t, stand) => {
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'echo ready; while echo more; do :; done; exit 9'] });
    const directory = stand.directoryOf(attemptId);
    await until(() => readOutput(directory, attemptId, { offset: 0, bytesMax: 100 }).totalBytes > 0);
    const pump = readProcess(readIdentity(directory, attemptId)!.pumpPid)!;
    signalProcess(pump, 'SIGKILL');
    const end = await stand.endOf(attemptId);
    t.match(end, { kind: 'exited', exitCode: 141, isPerhapsSignal: true, outputTruncated: true, note: /incomplete/ });
  },
);

testEachShell('a pump that is told USR1 goes on', async (t, stand) => {
  const script = 'for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; kill -USR1 0; done';
  const { end, output } = await stand.run({ argv: ['/bin/sh', '-c', `trap : USR1; ${script}`] });
  t.equal(exitedCode(end), 0);
  t.equal(output, '1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n');
});

t.test('what is no count, or another attempt’s, counts as none', async (t) => {
  const runDirectory = t.testdir();
  const directory = attemptDirectory(runDirectory, 'at-1');
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'out.0'), 'abc');
  writeFileSync(path.join(directory, 'out.1'), 'def');
  const cases = ['', ' '.repeat(4096), 'ql-count-1 at-2 3 - 0 done end\n', 'ql-count-1 at-1 3 - 0 done', 'junk\n'];
  for (const text of cases) {
    writeFileSync(path.join(directory, 'count'), text);
    t.match(measureOutput(directory, 'at-1', 100), { outputBytes: 3, outputTruncated: true, isExact: false });
  }
  writeFileSync(path.join(directory, 'count'), 'ql-count-1 at-1 3 - 0 done end\n   x');
  t.match(measureOutput(directory, 'at-1', 100), { outputBytes: 6, outputTruncated: false, isExact: true });
  t.equal(collectOutput(directory, 'at-1', 100).head.toString(), 'abcdef');
  writeFileSync(path.join(directory, 'count'), 'ql-count-1 at-1 5 - 7 short end\n');
  t.match(measureOutput(directory, 'at-1', 100), { outputBytes: 15, outputTruncated: true });
  t.match(collectOutput(directory, 'at-1', 100), { omittedBytes: 2, thrownBytes: 7, totalBytes: 15 });
});

t.test('from every offset of a stream over three segments, exactly the bytes that are there are read', async (t) => {
  const stream = createHash('sha512').update('stream').digest();
  const directory = attemptDirectory(t.testdir(), 'at-1');
  mkdirSync(directory, { recursive: true });
  for (const [first, older, newer] of [
    [10, 10, 20],
    [10, 30, 50],
    [1, 40, 41],
  ] as const) {
    writeFileSync(path.join(directory, 'out.0'), stream.subarray(0, first));
    writeFileSync(path.join(directory, 'out.2'), stream.subarray(older, newer));
    writeFileSync(path.join(directory, 'out.1'), stream.subarray(newer));
    writeFileSync(path.join(directory, 'count'), `ql-count-1 at-1 ${newer} ${older} 0 done end\n`);
    for (let offset = 0; offset < stream.length; offset += 1) {
      const piece = readOutput(directory, 'at-1', { offset, bytesMax: 7 });
      t.ok(stream.subarray(piece.offset, piece.nextOffset).equals(piece.bytes), `from ${offset}`);
      t.equal(piece.offset, offset < first || offset >= older ? offset : older);
    }
  }
});
