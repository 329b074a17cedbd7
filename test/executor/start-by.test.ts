// Where several runtimes share a database, a command may take its start only for as long as the lease of its runtime
// lasts: the file `taken` does not reach another machine.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { realClock } from '../../src/runtime/ports.ts';
import { testEachShell } from './stand.ts';

const clock = realClock();
const farMs = 3_600_000;

testEachShell(
  'a launcher whose lease is over takes no start, and says why',
  async (t, stand) => {
    const marker = path.join(stand.runDirectory, 'marker');
    const { attemptId, end } = await stand.run({ argv: ['/usr/bin/touch', marker] });
    t.equal(end.kind, 'withdrawn');
    t.notOk(existsSync(marker));
    t.same(stand.executor.inspect(attemptId, clock.observe().bootId), { kind: 'withdrawn' });
  },
  { startByUptimeMs: () => clock.observe().uptimeMs - 10 },
);

testEachShell(
  'without any lease there is no start either',
  async (t, stand) => {
    const marker = path.join(stand.runDirectory, 'marker');
    const { end } = await stand.run({ argv: ['/usr/bin/touch', marker] });
    t.equal(end.kind, 'withdrawn');
    t.notOk(existsSync(marker));
  },
  { startByUptimeMs: () => Number.NEGATIVE_INFINITY },
);

testEachShell(
  'a launcher whose lease lasts takes its start',
  async (t, stand) => {
    const { end, output } = await stand.run({ argv: ['/bin/echo', 'started'] });
    t.match(end, { kind: 'exited', exitCode: 0 });
    t.equal(output, 'started\n');
  },
  { startByUptimeMs: () => clock.observe().uptimeMs + farMs },
);
