// When runs are claimed, and how many: as slots are free, and ahead of those that are about to be.
import t from 'tap';
import { Claims } from '../../src/runtime/claims.ts';
import { createTestClock } from '../contract/world.ts';

function openScene({ free = 2 }: { readonly free?: number } = {}) {
  const clock = createTestClock();
  const limits: number[] = [];
  const lines: string[] = [];
  const scene = { free, mayClaim: true, answer: Promise.resolve() };
  const claims = new Claims({
    clock,
    concurrency: 4,
    mayClaim: () => scene.mayClaim,
    room: (ahead) => scene.free + ahead,
    claim: (limit) => {
      limits.push(limit);
      return scene.answer;
    },
    log: (line) => lines.push(line),
  });
  return {
    ...{ clock, limits, lines, claims },
    set: (changes: Partial<typeof scene>) => Object.assign(scene, changes),
  };
}

/** Everything that was put off until the work at hand is done. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

t.test('as many as there is room for, and none where there is none', async (t) => {
  const { claims, limits, set } = openScene();
  claims.soon();
  await settle();
  t.same(limits, [2]);
  set({ free: 0 });
  claims.soon();
  await settle();
  t.same(limits, [2]);
});

t.test('ahead, as many as have ended within a second, and never more than may run', async (t) => {
  const { claims, limits, clock, set } = openScene({ free: 0 });
  for (let ends = 0; ends < 7; ends += 1) {
    claims.noteEnd();
  }
  claims.soon();
  await settle();
  t.same(limits, [4]);
  clock.advance(600);
  claims.noteEnd();
  clock.advance(600);
  claims.soon();
  await settle();
  t.same(limits, [4, 1], 'one of them is recent');
  clock.advance(600);
  claims.soon();
  await settle();
  set({ free: -1 });
  claims.noteEnd();
  claims.soon();
  await settle();
  t.same(limits, [4, 1], 'where more run than may, that one only makes up for it');
});

t.test('from time to time also without room: for what was left in this place', async (t) => {
  const { claims, limits, set } = openScene({ free: -3 });
  claims.look();
  await settle();
  t.same(limits, [0]);
  claims.soon();
  await settle();
  t.same(limits, [0], 'once');
  set({ mayClaim: false });
  claims.look();
  await settle();
  t.same(limits, [0], 'but never without a lease');
});

t.test('one at a time; what is asked meanwhile is asked once more, also behind one that failed', async (t) => {
  const { claims, limits, lines, set } = openScene();
  const { promise, reject } = Promise.withResolvers<void>();
  set({ answer: promise });
  claims.soon();
  claims.soon();
  claims.soon();
  await settle();
  t.same(limits, [2]);
  t.ok(claims.isUnderWay);
  set({ answer: Promise.resolve() });
  reject(new TypeError('no answer'));
  await settle();
  t.same(limits, [2, 2]);
  t.match(lines, [/^no run was claimed: .*no answer/]);
  t.notOk(claims.isUnderWay);
});
