// What this process owes to the database is offered until it is taken, in its order.
import t from 'tap';
import { EdgeError, type ErrorCode } from '../../src/core/errors.ts';
import { limits } from '../../src/core/limits.ts';
import { operation, protocol } from '../../src/protocol/protocol.ts';
import { Deliveries } from '../../src/runtime/deliveries.ts';
import { simulateTime } from '../executor/stand.ts';
import { turn } from '../executor/until.ts';

const note = (name: string) =>
  operation(protocol({ name, load: () => ({}), decide: () => ({ outcome: `${name} done` }) }), {});

/** A database that refuses as it is told, and says what it was offered. */
function open() {
  const time = simulateTime();
  const offered: string[] = [];
  const lines: string[] = [];
  let code: ErrorCode | null = null;
  const submit = async (offer: { readonly name: string }) => {
    offered.push(offer.name);
    if (code !== null) {
      throw new EdgeError(code, 'it cannot now', { hint: 'wait' });
    }
    return `${offer.name} done` as never;
  };
  const deliveries = new Deliveries({ ...time, store: { submit }, log: (line) => lines.push(line) });
  const refuse = (next: ErrorCode | null) => {
    code = next;
  };
  const pass = async () => {
    await turn(2);
    time.advance(limits.redeliveryMs);
    await turn(2);
  };
  return { deliveries, offered, lines, refuse, pass, time };
}

t.test('what the database does not take now is offered again, in its order, and told once', async (t) => {
  const { deliveries, offered, lines, refuse, pass, time } = open();
  for (const code of ['full', 'busy', 'unknown-outcome', 'unavailable'] as const) {
    refuse(code);
    offered.length = 0;
    lines.length = 0;
    const taken = ['stop', 'end'].map((name) => deliveries.deliver({ what: name, operation: note(name) }));
    await pass();
    await pass();
    refuse(null);
    await pass();
    t.same(await Promise.all(taken), ['stop done', 'end done']);
    t.same(offered, ['stop', 'end', 'stop', 'end', 'stop', 'end', 'stop', 'end']);
    t.match(lines, [/^stop could not be recorded yet/, /^end could not be recorded yet/], code);
    t.equal(time.entriesCount(), 0, 'nothing is left to wait for');
  }
});

t.test('what would never be taken is given up, and whoever asked is told why', async (t) => {
  const { deliveries, offered, lines, refuse, pass } = open();
  refuse('damaged');
  const errors: unknown[] = [];
  const onRefused = (error: unknown) => errors.push(error);
  t.equal(await deliveries.deliver({ what: 'end', operation: note('end'), onRefused }), null);
  await pass();
  t.same(offered, ['end']);
  t.match(errors, [{ code: 'damaged' }]);
  t.match(lines, [/^end could not be recorded: damaged/]);
});

t.test('after the end nothing is offered, and nothing keeps the process', async (t) => {
  const { deliveries, offered, refuse, pass, time } = open();
  refuse('full');
  void deliveries.deliver({ what: 'end', operation: note('end') });
  await turn(2);
  deliveries.close();
  t.equal(time.entriesCount(), 0);
  refuse(null);
  await pass();
  t.same(offered, ['end']);
  t.equal(await deliveries.deliver({ what: 'late', operation: note('late') }).catch(() => 'thrown'), 'late done');
});
