import fc from 'fast-check';
import t from 'tap';
import { canonicalJson, orderedJson } from '../../src/core/canonical-json.ts';
import { isEdgeError } from '../../src/core/errors.ts';
import { isIntact } from '../../src/core/record-seal.ts';
import { attemptText, historyText, runText, stepRunText } from '../../src/core/record-text.ts';
import { choices, shapesUpTo } from './arbitraries.ts';
import { tellStory } from './run-driver.ts';
import { planOf } from './samples.ts';

/** A text, or why there is none. */
function answerOf(write: () => string): string {
  try {
    return write();
  } catch (error) {
    if (!isEdgeError(error)) {
      throw error;
    }
    return `refused: ${error.message}`;
  }
}

function withoutDigest(record: object): object {
  const { digest: _sealed, ...contents } = record as { digest?: unknown };
  return contents;
}

const anyText = fc.string({ unit: 'binary', maxLength: 12 });
const anyValue = fc.oneof(
  anyText,
  fc.constantFrom(
    null,
    undefined,
    true,
    0,
    -0,
    1.5,
    2 ** 53,
    1e21,
    Number.NaN,
    '',
    '\\ud800',
    '\ud800',
    '"',
    '\u2028',
    [],
    {},
  ),
  fc.record({ startMs: fc.integer(), startUptimeMs: fc.integer(), bootId: anyText, lengthMs: fc.nat() }),
  fc.record({ startMs: fc.integer(), lengthMs: fc.double(), more: anyText }),
  fc.constant(new Date(0)),
);

/** One member more, less or other than a record has. */
const changes = fc.array(fc.record({ member: fc.nat(), action: fc.nat(9), value: anyValue }), { maxLength: 3 });

function alter(record: object, list: readonly { member: number; action: number; value: unknown }[]): object {
  const altered: Record<string, unknown> = { ...record };
  for (const { member, action, value } of list) {
    const names = Object.keys(altered);
    const name = names[member % names.length]!;
    if (action === 0) {
      delete altered[name];
    } else if (action === 1) {
      altered[`${name}More`] = value;
    } else {
      altered[name] = value;
    }
  }
  return altered;
}

t.test('a record that was written by its members has its canonical text, and is refused as that is', async (t) => {
  let refused = 0;
  let written = 0;
  fc.assert(
    fc.property(shapesUpTo(3), choices, fc.array(changes, { minLength: 6, maxLength: 6 }), (shape, actions, lists) => {
      const { rows } = tellStory(planOf(shape), actions);
      const step = [...rows.steps.values()][0]!;
      const attempt = [...rows.attempts.values()].at(-1);
      const samples: [(record: never) => string, object][] = [
        [runText, rows.run],
        [stepRunText, step],
        ...(attempt === undefined ? [] : [[attemptText, attempt] as [(record: never) => string, object]]),
      ];
      return samples.every(([textOf, record], index) =>
        [record, withoutDigest(record), alter(record, lists[index]!), alter(record, lists[index + 3]!)].every((one) => {
          const expected = answerOf(() => canonicalJson(withoutDigest(one)));
          refused += Number(expected.startsWith('refused'));
          written += Number(!expected.startsWith('refused'));
          return answerOf(() => textOf(one as never)) === expected;
        }),
      );
    }),
    { numRuns: 300 },
  );
  t.ok(refused > 100 && written > 1_000, 'both are met often');
});

t.test('what a history covers has its canonical text, and is refused as that is', async () => {
  const digests = fc.constantFrom<string | null>(null, 'a'.repeat(64), '\ud800');
  fc.assert(
    fc.property(shapesUpTo(3), choices, digests, changes, changes, (shape, actions, previous, list, within) => {
      return tellStory(planOf(shape), actions).events.every((event) => {
        const payload = alter({ ...event.payload, one: 1 }, within);
        return [event, alter(event, list), { ...event, payload }].every((one) => {
          const expected = answerOf(() => canonicalJson({ previous, event: one }));
          return answerOf(() => historyText(previous, one as never)) === expected;
        });
      });
    }),
    { numRuns: 200 },
  );
});

t.test('text that is not plainly canonical is left to the long way', async (t) => {
  const within = { c: null, d: 'é"' };
  t.equal(orderedJson({ a: 1, b: within }, within), '{"a":1,"b":{"c":null,"d":"é\\""}}');
  t.equal(orderedJson({ a: 1, b: { ...within } }, within), null);
  for (const value of [undefined, 1.5, 2 ** 53, Number.NaN, '\ud800', '\\ud', () => 0, 1n]) {
    t.equal(orderedJson({ a: value }), null);
    const holding = { b: value };
    t.equal(orderedJson({ a: holding }, holding), null);
  }
  t.equal(orderedJson({ a: -0 }), canonicalJson({ a: -0 }));
});

t.test('what was found of a record stays true: it is frozen, and another object is looked at anew', async (t) => {
  const { rows } = tellStory(planOf({ a: [] }), []);
  const { run } = rows;
  t.ok(isIntact(run));
  t.throws(() => Object.assign(run, { version: 99 }));
  t.throws(() => Object.assign(run.deadline!, { lengthMs: 1 }));
  t.notOk(isIntact({ ...run, version: 99 }));
  const copy = { ...run, deadline: { ...run.deadline! } };
  t.ok(isIntact(copy));
  t.throws(() => Object.assign(copy, { version: 99 }));
  t.throws(() => Object.assign(copy.deadline, { lengthMs: 1 }));
});
