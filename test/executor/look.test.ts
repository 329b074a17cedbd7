import fc from 'fast-check';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { decideFirstLook, decideLook, type LookInput } from '../../src/executor/look.ts';

const drainMs = limits.outputDrainMsMax;
const nothing = { signal: null, isOver: false, nextLookMs: null, lookDelayMs: null };

/** Ten seconds after boot the launcher is found gone, with a receipt, nobody left, the pump still running. */
const gone: LookInput = {
  launcher: 'gone',
  isLauncherWatched: true,
  hasReceipt: true,
  othersCount: 0,
  unprovenCount: 0,
  isDoubtful: false,
  isPumpDone: false,
  nowMs: 10_000,
  goneAtMs: 10_000,
  killAtMs: null,
  isStopLate: false,
  untoldCount: 0,
  lookDelayMs: null,
};
const alive: LookInput = { ...gone, launcher: 'alive', hasReceipt: false, goneAtMs: null, othersCount: 1 };

t.test('a running command is not looked at, unless nothing else tells its end', async (t) => {
  t.same(decideLook(alive), nothing);
  const unwatched = { ...alive, isLauncherWatched: false };
  t.match(decideLook(unwatched), { signal: null, nextLookMs: 11_000 });
  t.match(decideLook({ ...unwatched, lookDelayMs: 30_000 }), { nextLookMs: 40_000 }, 'at most half a minute');
});

t.test(
  'a stop waits for its grace, kills the command, and half a second later launcher and pump as well',
  async (t) => {
    const stop = { ...alive, killAtMs: 15_000 };
    t.match(decideLook(stop), { signal: null, nextLookMs: 10_050, lookDelayMs: 50 });
    t.match(
      decideLook({ ...stop, untoldCount: 1 }),
      { signal: 'term-untold', nextLookMs: 10_050 },
      'one that missed it',
    );
    t.match(decideLook({ ...stop, nowMs: 14_999 }), { signal: null, nextLookMs: 15_000 });
    const kill = decideLook({ ...stop, nowMs: 15_000 });
    t.same(kill, { signal: 'kill-others', isOver: false, nextLookMs: 15_050, lookDelayMs: 50 });
    t.match(decideLook({ ...stop, nowMs: 15_350, lookDelayMs: 200 }), { signal: 'kill-others', nextLookMs: 15_500 });
    t.match(decideLook({ ...stop, nowMs: 15_500 }), { signal: 'kill-everyone', isOver: false, nextLookMs: 16_000 });
    t.match(decideLook({ ...stop, nowMs: 16_000, lookDelayMs: 500 }), { signal: 'kill-everyone', nextLookMs: 17_000 });
  },
);

t.test('the usual command is over when its pump is; before that it is looked at after half the drain', async (t) => {
  t.equal(decideFirstLook(gone), 10_000 + drainMs / 2);
  t.equal(decideFirstLook({ ...gone, isPumpDone: true }), 10_000);
  t.equal(decideFirstLook({ ...gone, killAtMs: 20_000 }), 10_000);
  t.equal(decideFirstLook({ ...gone, hasReceipt: false }), 10_000);
  t.same(decideLook({ ...gone, isPumpDone: true }), { ...nothing, isOver: true });
});

t.test('a pump that is held is waited for as long as the drain, and ends with the attempt', async (t) => {
  t.same(decideLook(gone), { ...nothing, nextLookMs: 10_000 + drainMs / 2 }, 'a look that wakes it if it was stopped');
  t.same(decideLook({ ...gone, nowMs: 10_000 + drainMs / 2 }), { ...nothing, nextLookMs: 10_000 + drainMs });
  t.same(decideLook({ ...gone, nowMs: 10_000 + drainMs }), { ...nothing, isOver: true, signal: 'kill-pump' });
  const left = { ...gone, othersCount: 1, nowMs: 10_000 + drainMs + limits.killEscalationMs };
  t.match(
    decideLook(left),
    { isOver: true, signal: 'kill-everyone' },
    'also where somebody is left whom KILL cannot end',
  );
  const stopped = { ...gone, killAtMs: 9_000, nowMs: 10_000 + drainMs };
  t.same(decideLook(stopped), { ...nothing, isOver: true, signal: 'kill-pump' });
});

t.test('leftovers have half of the drain, then TERM, then KILL, and never hold the attempt for longer', async (t) => {
  const left = { ...gone, othersCount: 2, untoldCount: 2, isPumpDone: true };
  t.same(decideLook(left), { ...nothing, nextLookMs: 11_000 });
  const term = decideLook({ ...left, nowMs: 11_000 });
  t.same(term, { signal: 'term-untold', isOver: false, nextLookMs: 11_050, lookDelayMs: 50 });
  const later = { ...left, untoldCount: 0, nowMs: 11_050, lookDelayMs: 50 };
  t.match(decideLook(later), { signal: null, nextLookMs: 11_150, lookDelayMs: 100 });
  t.match(decideLook({ ...later, untoldCount: 1 }), { signal: 'term-untold' }, 'one that was forked meanwhile');
  t.match(decideLook({ ...later, nowMs: 11_950, lookDelayMs: 800 }), { signal: null, nextLookMs: 12_000 });
  t.match(decideLook({ ...later, nowMs: 12_000 }), { signal: 'kill-others', isOver: false });
  t.match(decideLook({ ...later, nowMs: 12_500 }), { signal: 'kill-everyone', isOver: true });
});

t.test('what outlives a stopped command is told if it was not, and keeps the rest of the grace', async (t) => {
  const left = { ...gone, othersCount: 1, untoldCount: 1, killAtMs: 60_000 };
  t.match(decideLook(left), { signal: 'term-untold', isOver: false, nextLookMs: 10_050 });
  t.match(decideLook({ ...left, untoldCount: 0, nowMs: 59_999 }), { signal: null, nextLookMs: 60_000 });
  t.match(decideLook({ ...left, untoldCount: 0, nowMs: 99_000 }), { signal: 'kill-others', isOver: false });
});

t.test('a stop that comes when the command has ended hastens the drain, and never makes it longer', async (t) => {
  const late = { ...gone, othersCount: 1, untoldCount: 1, isStopLate: true, killAtMs: 60_000, isPumpDone: true };
  t.match(decideLook(late), { signal: 'term-untold', isOver: false, nextLookMs: 10_050 }, 'TERM at once');
  t.match(decideLook({ ...late, untoldCount: 0, nowMs: 11_999 }), { signal: null, nextLookMs: 12_000 });
  t.match(decideLook({ ...late, untoldCount: 0, nowMs: 12_000 }), { signal: 'kill-others' }, 'KILL as without it');
  t.match(decideLook({ ...late, untoldCount: 0, nowMs: 12_500 }), { signal: 'kill-everyone', isOver: true });
  t.match(decideLook({ ...late, untoldCount: 0, nowMs: 10_500, killAtMs: 10_500 }), { signal: 'kill-others' });
});

t.test('a command without its launcher is looked at after 1 s, doubling to 30 s', async (t) => {
  const orphan = { ...gone, hasReceipt: false, othersCount: 1, isPumpDone: true };
  let [nowMs, lookDelayMs]: [number, number | null] = [10_000, null];
  const distances: number[] = [];
  for (let look = 0; look < 8; look += 1) {
    const decision = decideLook({ ...orphan, nowMs, lookDelayMs });
    t.match(decision, { signal: null, isOver: false });
    distances.push(decision.nextLookMs! - nowMs);
    [nowMs, lookDelayMs] = [decision.nextLookMs!, decision.lookDelayMs];
  }
  t.same(distances, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
});

t.test('a session of which cannot be told whose it is, is waited for and never signalled', async (t) => {
  const unproven = { ...gone, hasReceipt: false, unprovenCount: 1, isPumpDone: true, nowMs: 99_000, killAtMs: 1 };
  t.match(decideLook(unproven), { signal: null, isOver: false, nextLookMs: 100_000 });
  const ended = { ...unproven, hasReceipt: true };
  t.match(decideLook(ended), { isOver: true }, 'a receipt says that the command has ended');
  const soon = { ...ended, nowMs: 12_499, killAtMs: null };
  t.match(decideLook(soon), { isOver: false, nextLookMs: 12_549 }, 'but not before the drain is over');
  t.match(decideLook({ ...soon, nowMs: 12_500 }), { isOver: true });
});

t.test(
  'somebody who was seen and is only not met is looked for again, and killed at the end of the drain',
  async (t) => {
    const doubtful = { ...gone, isDoubtful: true, isPumpDone: true };
    t.match(decideLook(doubtful), { signal: null, isOver: false, nextLookMs: 10_050 });
    t.match(decideLook({ ...doubtful, nowMs: 12_000 }), { signal: 'kill-others', isOver: false, nextLookMs: 12_050 });
    t.match(decideLook({ ...doubtful, nowMs: 12_500 }), { signal: null, isOver: true });
  },
);

t.test('in every situation something comes next, and nothing is signalled early', async () => {
  const times = fc.integer({ min: 0, max: 100_000 });
  const input: fc.Arbitrary<LookInput> = fc
    .record({
      isAlive: fc.boolean(),
      isLauncherWatched: fc.boolean(),
      hasReceipt: fc.boolean(),
      othersCount: fc.nat(2),
      unprovenCount: fc.nat(1),
      isDoubtful: fc.boolean(),
      isPumpDone: fc.boolean(),
      nowMs: times,
      goneAtMs: times,
      killAtMs: fc.option(times),
      isStopLate: fc.boolean(),
      untoldCount: fc.nat(2),
      lookDelayMs: fc.option(fc.integer({ min: 1, max: 30_000 })),
    })
    .map(({ isAlive, ...rest }) => ({
      ...rest,
      launcher: isAlive ? ('alive' as const) : ('gone' as const),
      goneAtMs: isAlive ? null : Math.min(rest.goneAtMs, rest.nowMs),
    }));
  fc.assert(
    fc.property(input, (situation) => {
      const decision = decideLook(situation);
      const { nowMs, killAtMs, goneAtMs, othersCount, launcher } = situation;
      const isKill = decision.signal?.startsWith('kill') === true && decision.signal !== 'kill-pump';
      const isIdle = launcher === 'alive' && killAtMs === null && situation.isLauncherWatched;
      const drainEndMs = (goneAtMs ?? Number.POSITIVE_INFINITY) + drainMs;
      const isLate = situation.isStopLate && goneAtMs !== null;
      const earliestKillMs = isLate ? Math.min(killAtMs ?? drainEndMs, drainEndMs) : (killAtMs ?? drainEndMs);
      return (
        decision.isOver !== (decision.nextLookMs !== null || isIdle) &&
        (decision.nextLookMs === null || decision.nextLookMs > nowMs) &&
        (!isKill || nowMs >= earliestKillMs) &&
        !(decision.isOver && launcher === 'alive') &&
        !(decision.isOver && othersCount > 0 && killAtMs !== null && !isLate)
      );
    }),
    { numRuns: 2_000 },
  );
});
