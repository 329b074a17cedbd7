// Whose a session is. The sessions are real ones whose leader has gone, as after the end of a launcher.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import t, { type Test } from 'tap';
import {
  listSession,
  type ProcessRow,
  processKey,
  readProcess,
  type SessionProof,
  signalProcess,
  viewSession,
} from '../../src/executor/session.ts';
import { realClock } from '../../src/runtime/ports.ts';

const { bootId } = realClock().observe();

/** Two processes of one session without a leader; ended after the body. */
async function withOrphans(
  env: Record<string, string>,
  body: (sessionId: number, rows: readonly ProcessRow[]) => void,
): Promise<void> {
  const leader = spawn('/bin/sh', ['-c', 'sleep 600 & sleep 600 & exit'], { detached: true, stdio: 'ignore', env });
  await once(leader, 'exit');
  const rows = listSession(leader.pid!);
  try {
    body(leader.pid!, rows);
  } finally {
    for (const row of rows) {
      signalProcess(row, 'SIGKILL');
    }
  }
}

function proofOf(sessionId: number, over: Partial<SessionProof> = {}): SessionProof {
  return {
    attemptId: 'at-1',
    launcherMark: 'QL_LAUNCHER_OF=/run/none',
    identity: { pid: sessionId, startTicks: 1, bootId, uptimeMs: 10, pumpPid: 2 ** 22 },
    bootId,
    commandPid: null,
    launcherEndUptimeMs: null,
    seen: new Set(),
    ...over,
  };
}

function expectUnproven(t: Test, proof: SessionProof, rows: readonly ProcessRow[], why: string): void {
  const view = viewSession(proof);
  t.same(view.others, [], why);
  t.same(view.unproven.map(processKey), rows.map(processKey), why);
}

t.test('members without any proof are nobody’s: neither ours to signal nor gone', () =>
  withOrphans({ PATH: '/usr/bin:/bin' }, (sessionId, rows) => {
    t.equal(rows.length, 2);
    expectUnproven(t, proofOf(sessionId), rows, 'no proof');
    expectUnproven(t, proofOf(sessionId, { launcherEndUptimeMs: 20 }), rows, 'started after the launcher’s end');
    expectUnproven(t, proofOf(sessionId, { seen: new Set([`${rows[0]!.pid}:7`]) }), rows, 'another start of that pid');
    const identity = { ...proofOf(sessionId).identity, startTicks: rows[1]!.startTicks + 1 };
    const late = proofOf(sessionId, { identity, commandPid: rows[0]!.pid });
    expectUnproven(t, late, rows, 'older than the launcher itself');
  }),
);

t.test('one proven member proves the session', () =>
  withOrphans({ PATH: '/usr/bin:/bin' }, (sessionId, rows) => {
    const keys = rows.map(processKey);
    const proofs: [string, Partial<SessionProof>][] = [
      ['the process that took the start', { commandPid: rows[1]!.pid }],
      ['one seen before', { seen: new Set([keys[0]!]) }],
      ['one that started before the launcher’s end', { launcherEndUptimeMs: rows[0]!.startTicks * 10 }],
    ];
    for (const [name, over] of proofs) {
      const view = viewSession(proofOf(sessionId, over));
      t.same(view.others.map(processKey), keys, name);
      t.same(view.unproven, []);
    }
    t.same(
      viewSession(proofOf(sessionId, { commandPid: rows[1]!.pid, bootId: 'later' })).others,
      [],
      'not in another boot',
    );
  }),
);

t.test('an environment that names the attempt proves the session, another attempt’s does not', () =>
  withOrphans({ PATH: '/usr/bin:/bin', QL_ATTEMPT_ID: 'at-1' }, (sessionId, rows) => {
    t.equal(viewSession(proofOf(sessionId)).others.length, 2);
    expectUnproven(t, proofOf(sessionId, { attemptId: 'at-10' }), rows, 'another attempt');
  }),
);

t.test('a leader with another start proves that the session is over', async (t) => {
  const stranger = spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore' });
  const row = readProcess(stranger.pid!)!;
  const view = viewSession(proofOf(row.pid, { commandPid: row.pid }));
  t.match(view, { others: [], launcher: null, pump: [], unproven: [] });
  const own = viewSession(proofOf(row.pid, { identity: { ...proofOf(row.pid).identity, startTicks: row.startTicks } }));
  t.equal(own.launcher?.pid, row.pid, 'with its own start it is the launcher');
  signalProcess(row, 'SIGKILL');
  await once(stranger, 'exit');
});

t.test('a process with a name of blanks and parentheses is read as it is', async (t) => {
  const name = ') R 1 (x';
  const child = spawn(
    process.execPath,
    ['-e', `process.title=${JSON.stringify(name)}; console.log(1); setInterval(() => {}, 1e6)`],
    {
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  await once(child.stdout!, 'data');
  const row = readProcess(child.pid!)!;
  t.match(row, { parentPid: process.pid, groupId: child.pid!, sessionId: child.pid!, isZombie: false });
  t.ok(row.startTicks > 0);
  signalProcess(row, 'SIGKILL');
  await once(child, 'exit');
  t.equal(readProcess(child.pid!)?.startTicks === row.startTicks, false);
});
