import fc from 'fast-check';
import t from 'tap';
import { isOver, remainingMs, startSpan } from '../../src/core/deadline.ts';
import type { Now } from '../../src/core/ports.ts';

const trustedFromMs = 1_700_000_000_000;
const begun: Now = { wallMs: trustedFromMs + 1_000_000, uptimeMs: 50_000, bootId: 'boot-1' };
const span = startSpan(begun, 10_000);
const at = (change: Partial<Now>): Now => ({ ...begun, ...change });

t.test('a span holds where it began and how long it is', async (t) => {
  t.same(span, { startMs: begun.wallMs, startUptimeMs: 50_000, bootId: 'boot-1', lengthMs: 10_000 });
});

t.test('in the boot that began it, uptime measures, whatever the wall clock says', async (t) => {
  for (const wallMs of [0, begun.wallMs - 9e9, begun.wallMs, begun.wallMs + 9e9]) {
    t.equal(remainingMs(span, at({ wallMs }), trustedFromMs), 10_000);
    t.equal(remainingMs(span, at({ wallMs, uptimeMs: 53_000 }), trustedFromMs), 7_000);
    t.equal(remainingMs(span, at({ wallMs, uptimeMs: 60_000 }), trustedFromMs), 0);
    t.equal(remainingMs(span, at({ wallMs, uptimeMs: 99_000 }), trustedFromMs), 0);
  }
});

t.test('after a reboot a trusted wall clock measures', async (t) => {
  const reboot = { bootId: 'boot-2', uptimeMs: 1_000 };
  t.equal(remainingMs(span, at({ ...reboot, wallMs: begun.wallMs + 4_000 }), trustedFromMs), 6_000);
  t.equal(remainingMs(span, at({ ...reboot, wallMs: begun.wallMs + 10_000 }), trustedFromMs), 0);
  t.equal(remainingMs(span, at({ ...reboot, wallMs: begun.wallMs + 9e9 }), trustedFromMs), 0);
});

t.test('after a reboot at least the present uptime has passed, also where the wall clock stepped back', async (t) => {
  const reboot = { bootId: 'boot-2', uptimeMs: 3_000 };
  t.equal(remainingMs(span, at({ ...reboot, wallMs: begun.wallMs - 500_000 }), trustedFromMs), 7_000);
  t.equal(remainingMs(span, at({ ...reboot, wallMs: begun.wallMs + 1_000 }), trustedFromMs), 7_000);
  t.equal(remainingMs(span, at({ ...reboot, uptimeMs: 10_000, wallMs: begun.wallMs - 1 }), trustedFromMs), 0);
});

t.test('an untrusted wall clock counts for nothing: only the uptime of the new boot has passed', async (t) => {
  const reboot = { bootId: 'boot-2', uptimeMs: 2_000 };
  for (const wallMs of [0, 1, trustedFromMs - 1]) {
    t.equal(remainingMs(span, at({ ...reboot, wallMs }), trustedFromMs), 8_000);
  }
  const early = startSpan({ wallMs: 5, uptimeMs: 5, bootId: 'boot-1' }, 10_000);
  t.equal(remainingMs(early, at({ ...reboot, wallMs: trustedFromMs - 1 }), trustedFromMs), 8_000, 'a step of decades');
  t.equal(remainingMs(early, at({ ...reboot, wallMs: trustedFromMs }), trustedFromMs), 0, 'believed from here on');
});

t.test('a span is over exactly when nothing of it remains', async (t) => {
  t.notOk(isOver(span, at({ uptimeMs: 59_999 }), trustedFromMs));
  t.ok(isOver(span, at({ uptimeMs: 60_000 }), trustedFromMs));
  t.ok(isOver(startSpan(begun, 0), begun, trustedFromMs), 'one without length at once');
});

const time = fc.integer({ min: 0, max: 4_000_000_000_000 });
const now = fc.record({ wallMs: time, uptimeMs: fc.nat(), bootId: fc.constantFrom('boot-1', 'boot-2') });

t.test('nothing ever remains longer than the length, nor less than nothing, whatever the clocks say', async () => {
  fc.assert(
    fc.property(now, now, fc.nat(), time, (start, later, lengthMs, trusted) => {
      const remaining = remainingMs(startSpan(start, lengthMs), later, trusted);
      return remaining >= 0 && remaining <= lengthMs && Number.isSafeInteger(remaining);
    }),
  );
});

t.test('as time passes within a boot, what remains never grows', async () => {
  fc.assert(
    fc.property(now, now, fc.nat(), fc.nat(), (start, later, lengthMs, passedMs) => {
      const kept = startSpan(start, lengthMs);
      const after = { ...later, uptimeMs: later.uptimeMs + passedMs, wallMs: later.wallMs + passedMs };
      return remainingMs(kept, after, trustedFromMs) <= remainingMs(kept, later, trustedFromMs);
    }),
  );
});
