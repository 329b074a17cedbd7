import t from 'tap';
import {
  attemptTransitions,
  hasTransition,
  installationTransitions,
  isTerminal,
  isTerminalAttempt,
  isTerminalRun,
  isTerminalStep,
  lifecycleTransitions,
  runTransitions,
  stepTransitions,
} from '../../src/core/states.ts';

// Written out by hand from the design, one line a state; what is not here is illegal.
const machines = {
  run: {
    table: runTransitions,
    legal: ['running succeeded', 'running failed', 'running cancelled', 'running timed_out'],
    terminal: ['cancelled', 'failed', 'succeeded', 'timed_out'],
  },
  'step run': {
    table: stepTransitions,
    legal: [
      ...['pending ready', 'pending skipped', 'pending cancelled'],
      ...['ready ready', 'ready running', 'ready failed', 'ready skipped', 'ready cancelled', 'ready timed_out'],
      'ready waiting_approval',
      ...['waiting_approval ready', 'waiting_approval running'],
      ...['waiting_approval cancelled', 'waiting_approval timed_out'],
      ...['running succeeded', 'running failed', 'running cancelled', 'running timed_out', 'running lost'],
      'running ready',
      ...['lost ready', 'lost failed', 'lost cancelled'],
    ],
    terminal: ['cancelled', 'failed', 'skipped', 'succeeded', 'timed_out'],
  },
  attempt: {
    table: attemptTransitions,
    legal: [
      ...['claimed starting', 'claimed cancelled', 'claimed timed_out', 'claimed lost'],
      ...['starting running', 'starting succeeded', 'starting failed', 'starting cancelled', 'starting timed_out'],
      'starting lost',
      ...['running succeeded', 'running failed', 'running cancelled', 'running timed_out', 'running lost'],
    ],
    terminal: ['cancelled', 'failed', 'lost', 'succeeded', 'timed_out'],
  },
  lifecycle: {
    table: lifecycleTransitions,
    legal: ['active disabled', 'active uninstalled', 'disabled active', 'disabled uninstalled'],
    terminal: ['uninstalled'],
  },
  installation: {
    table: installationTransitions,
    legal: [
      ...['staged active', 'staged failed', 'active superseded', 'active removed'],
      ...['superseded removed', 'failed removed'],
    ],
    terminal: ['removed'],
  },
} as const;

for (const [name, { table, legal, terminal }] of Object.entries(machines)) {
  t.test(`the ${name} machine has exactly the transitions of the design, over every pair of states`, async (t) => {
    const states = Object.keys(table);
    const allowed = new Set<string>(legal);
    for (const from of states) {
      for (const to of states) {
        t.equal(hasTransition(table, from, to), allowed.has(`${from} ${to}`), `${from} → ${to}`);
      }
    }
    const named = legal.flatMap((pair) => pair.split(' '));
    t.same([...new Set(named)].sort(), [...states].sort(), 'every state of the table occurs in the design and back');
  });

  t.test(`the ${name} machine has exactly the ends of the design`, async (t) => {
    const ends = Object.keys(table).filter((state) => isTerminal(table, state));
    t.same(ends.sort(), terminal);
  });
}

t.test('no state that a machine does not know has a transition or is an end', async (t) => {
  for (const { table } of Object.values(machines)) {
    for (const unknown of ['', 'waiting', 'toString', '__proto__', 'constructor']) {
      t.notOk(hasTransition(table, unknown, 'failed'));
      t.notOk(hasTransition(table, Object.keys(table)[0]!, unknown));
      t.notOk(isTerminal(table, unknown));
    }
  }
});

t.test('a lost attempt has ended, a lost step has not', async (t) => {
  t.ok(isTerminalAttempt('lost'));
  t.notOk(isTerminalStep('lost'));
  t.notOk(isTerminalRun('running'));
});
