// How an answer under a fault is judged, and how points are drawn and counted.
import { constants } from 'node:os';
import t from 'tap';
import { findAnswerTrouble } from '../../edge-evidence/faults/answer.ts';
import { drawPairs, faultAt, faultKinds } from '../../edge-evidence/faults/failing-calls.ts';
import type { Answer } from '../../edge-evidence/faults/launch.ts';
import { createTally } from '../../edge-evidence/faults/tally.ts';
import { hasStruckKeeping } from '../../edge-evidence/faults/yielding.ts';
import { createRandom } from '../../edge-evidence/random.ts';
import type { Call } from '../../edge-evidence/recorder/recording.ts';
import { createCalls } from './hand-made.ts';

const full = { codes: ['full'], mayHold: false };
const answer = (more: Partial<Answer>): Answer => ({ code: 4, signal: null, out: '', err: '', isLate: false, ...more });
const refused = 'qinglong-edge: full: cannot write x: ENOSPC; free space on that file system\n';

t.test('a refusal with its code, its exit code and a word on what to do is right', async (t) => {
  t.same(findAnswerTrouble(answer({ err: refused }), full), []);
  const document = { error: { code: 'full', message: 'cannot write x', hint: 'free space', mistakes: [] } };
  t.same(findAnswerTrouble(answer({ err: `a note\n${JSON.stringify(document)}\n` }), full), []);
  const logged = '2026-01-01 00:00:00 full: cannot write x; free space\n';
  t.same(findAnswerTrouble(answer({ err: logged }), full), []);
  t.same(findAnswerTrouble(answer({ code: 0 }), { ...full, mayHold: true }), []);
  t.same(findAnswerTrouble(answer({ code: 124 }), { ...full, mayTellRun: true }), []);
  t.same(findAnswerTrouble(answer({ code: 5, out: 'page 3 is damaged' }), { ...full, isReport: true }), []);
});

t.test('every other end is trouble, and says which', async (t) => {
  const cases: readonly (readonly [Partial<Answer>, RegExp])[] = [
    [{ isLate: true, code: null, signal: 'SIGKILL' }, /did not end by itself/],
    [{ code: null, signal: 'SIGBUS' }, /ended by SIGBUS/],
    [{ code: 0 }, /answered 0/],
    [{ code: 1, err: 'TypeError: x is not a function\n    at f (a.cjs:1:2)' }, /crashed with exit code 1/],
    [{ code: 70, err: 'qinglong-edge: internal: broken invariant: x; report it' }, /crashed with exit code 70/],
    [{ code: 4, err: 'sorry\n' }, /without a code of the closed table/],
    [{ code: 5, err: refused }, /exit code 5, but full has 4/],
    [{ code: 2, err: 'qinglong-edge: invalid: x; mend it\n' }, /the code invalid misleads, full is true/],
    [{ code: 4, err: 'qinglong-edge: full: no space\n' }, /does not say what to do/],
    [{ code: 124 }, /without a code of the closed table/],
  ];
  for (const [more, told] of cases) {
    t.match(findAnswerTrouble(answer(more), full).join('\n'), told);
  }
  t.match(findAnswerTrouble(answer({ code: 5 }), { ...full, isReport: true }).join(), /does not say what/);
});

const calls = (['write', 'sync', 'rename', 'write', 'unlink'] as const).map((kind, index): Call => {
  const place = { pid: 1, fd: 3, value: 0, result: 0, path: '', created: false, mode: 0 };
  return { ...place, number: index + 1, kind, data: Buffer.alloc(kind === 'write' ? 100 : 0) };
});

t.test('every kind of fault and of call gets its turn, and a seed draws the same again', async (t) => {
  const draw = (seed: number) => drawPairs(calls, createRandom(seed), 32);
  const pairs = draw(7);
  t.same(pairs, draw(7));
  t.equal(new Set(pairs.map(({ fault }) => fault.name)).size, faultKinds.length);
  t.same([...new Set(pairs.map(({ call }) => call.kind))].sort(), ['rename', 'sync', 'unlink', 'write']);
  for (const pair of pairs.filter(({ fault }) => fault.isShort === true)) {
    t.match(faultAt(pair), { error: 'ENOSPC', bytesMax: 50, number: pair.call.number });
    t.equal(pair.call.kind, 'write', 'only a write can be short');
  }
  t.same(drawPairs([], createRandom(7), 3), []);
});

t.test('a point that throws has failed, and of very many failures the rest is counted', async (t) => {
  const tally = createTally();
  await tally.point('good', async () => []);
  await tally.point('bad', () => Promise.reject(new TypeError('no')));
  await tally.point('worse', async () => Array.from({ length: 50 }, (_, index) => `trouble ${index}`));
  t.match(tally.figures(), { tried: 3, held: 1, untold: 11 });
  t.equal(tally.failures.length, 40);
  t.match(tally.failures[0], /^bad: the trial itself failed: TypeError: no/);
});

t.test('only a fault that met the keeping of an output excuses that it is not kept', (t) => {
  const EIO = -constants.errno.EIO;
  const met = (name: string) => {
    const { make, open, write, sync } = createCalls();
    const result = (at: string) => ({ result: at === name ? EIO : 0 });
    const database = open('create', 'data/qinglong.db-journal');
    const begun = [database.call, { ...write(database.fd, 0, 'x'), ...result('journal') }];
    const folder = make('mkdir', { path: 'data/artifacts', ...result('mkdir') });
    const above = open('open', 'data');
    const syncAbove = { ...sync(above.fd), ...result('sync above') };
    const output = open('create', 'data/artifacts/at@run.out.partial');
    const rest = [{ ...write(output.fd, 0, 'x'), ...result('write') }, make('unlink', { path: 'data/holder.json' })];
    return hasStruckKeeping([...begun, folder, above.call, syncAbove, output.call, ...rest], { error: 'EIO' });
  };
  t.same(['mkdir', 'sync above', 'write'].map(met), [true, true, true]);
  t.same(['journal', 'nothing'].map(met), [false, false]);
  t.end();
});
