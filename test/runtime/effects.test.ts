// What a turn that is durable makes happen, in the order of its operations.
import t from 'tap';
import { cancel } from '../../src/protocol/cancel.ts';
import { operation } from '../../src/protocol/protocol.ts';
import type { Attempts } from '../../src/runtime/attempts.ts';
import { carryOut } from '../../src/runtime/effects.ts';

t.test('a cancel stops what runs by itself, also where the convergence that follows it is owed', async (t) => {
  const halted: unknown[] = [];
  const attempts = { haltRun: (...given: unknown[]) => halted.push(given) } as unknown as Attempts;
  const ports = { attempts, runCreated: () => {}, runEnded: () => {} };
  const settle = (kind: string, runId: string | null) => ({
    operation: operation(cancel, { runId: 'run-1', reason: 'user', requestedBy: 'operator:root' }),
    outcome: { kind },
    runId,
  });
  carryOut([settle('requested', 'run-1')], { ...ports, lastGraceMs: null });
  carryOut([settle('requested', 'run-1')], { ...ports, lastGraceMs: 3_000 });
  carryOut([settle('existing', null), settle('settled', null)], { ...ports, lastGraceMs: null });
  t.same(halted, [
    ['run-1', undefined],
    ['run-1', 3_000],
  ]);
});
