import t from 'tap';
import {
  formatBytes,
  formatClock,
  formatCount,
  formatCountdown,
  formatElapsed,
  formatTime,
} from '../../src/cli/times.ts';

t.test('an elapsed time has two units at most and is never rounded up', async (t) => {
  const rows: readonly (readonly [number, string])[] = [
    [-5, '0ms'],
    [0, '0ms'],
    [999, '999ms'],
    [1_999, '1.9s'],
    [9_999, '9.9s'],
    [10_000, '10s'],
    [59_999, '59s'],
    [60_000, '1m00s'],
    [3_599_999, '59m59s'],
    [3_600_000, '1h00m'],
    [86_399_999, '23h59m'],
    [86_400_000, '1d00h'],
    [400 * 86_400_000, '400d00h'],
  ];
  for (const [elapsedMs, text] of rows) {
    t.equal(formatElapsed(elapsedMs), text);
  }
});

t.test('a countdown is never 0 while anything is left', async (t) => {
  t.equal(formatCountdown(1), '1s');
  t.equal(formatCountdown(4_001), '5s');
  t.equal(formatCountdown(0), '0s');
  t.equal(formatCountdown(130_000), '2m10s');
});

t.test('times are local and in the order of ISO 8601', async (t) => {
  const local = new Date(2026, 2, 1, 2, 3, 4).getTime();
  t.equal(formatTime(local), '2026-03-01 02:03:04');
  t.equal(formatClock(local), '02:03:04');
});

t.test('amounts say their unit', async (t) => {
  t.equal(formatBytes(0), '0 B');
  t.equal(formatBytes(1023), '1023 B');
  t.equal(formatBytes(1536), '1.5 KiB');
  t.equal(formatBytes(300 * 1024 * 1024), '300 MiB');
  t.equal(formatCount(1, 'step'), '1 step');
  t.equal(formatCount(0, 'step'), '0 steps');
});
