import fc from 'fast-check';
import t from 'tap';
import { formatDuration, parseDuration, parseSize } from '../../src/core/duration.ts';

t.test('a duration is one whole number and one unit', async (t) => {
  t.equal(parseDuration('250ms'), 250);
  t.equal(parseDuration('30s'), 30_000);
  t.equal(parseDuration('5m'), 300_000);
  t.equal(parseDuration('1h'), 3_600_000);
  t.equal(parseDuration('7d'), 604_800_000);
  t.equal(parseDuration('0s'), 0);
});

t.test('what is no duration is null: no unit, two units, signs, fractions, spaces, leading zeros', async (t) => {
  for (const text of [
    '',
    '30',
    's',
    '1h30m',
    '-1s',
    '+1s',
    '1.5s',
    ' 1s',
    '1s ',
    '1 s',
    '01s',
    '1S',
    '1w',
    '١s',
    '1s\n',
  ]) {
    t.equal(parseDuration(text), null, JSON.stringify(text));
  }
});

t.test('a formatted duration reads back as the same milliseconds', async () => {
  fc.assert(fc.property(fc.nat(2 ** 31 - 1), (durationMs) => parseDuration(formatDuration(durationMs)) === durationMs));
});

t.test('a duration is formatted in its largest whole unit', async (t) => {
  t.equal(formatDuration(0), '0s');
  t.equal(formatDuration(1), '1ms');
  t.equal(formatDuration(90_000), '90s');
  t.equal(formatDuration(3_600_000), '1h');
  t.equal(formatDuration(172_800_000), '2d');
});

t.test('a size is a whole number of kilo-, mega- or gigabytes of 1024', async (t) => {
  t.equal(parseSize('512k'), 524_288);
  t.equal(parseSize('64m'), 67_108_864);
  t.equal(parseSize('1g'), 1_073_741_824);
  for (const text of ['', '64', '0m', '64M', '64mb', '1.5g', '-1m', ' 1m']) {
    t.equal(parseSize(text), null, JSON.stringify(text));
  }
});
