// A process that serves on the socket path in its argument and does nothing else. At each SIGUSR2 it writes one line:
// what keeps it alive, and whether it has loaded node:http. Not a test itself.
import { writeSync } from 'node:fs';
import type { Served } from '../../src/http/routes.ts';
import { serveSocket } from '../../src/http/server.ts';
import { realAlarm, realClock } from '../../src/runtime/ports.ts';
import { defaultSettings } from '../../src/runtime/settings.ts';
import type { Verbs } from '../../src/runtime/verbs.ts';

const clock = realClock();
const verbs = {
  cancel: async () => ({ kind: 'not-found' }),
  follow: async function* () {},
} as Partial<Verbs> as Verbs;
const socketPath = process.argv[2]!;
// Not from scene.ts, which loads node:http.
const holder: Omit<Served, 'verbs'> = {
  describe: () => ({}),
  status: () => ({
    phase: 'open',
    pid: process.pid,
    command: 'test',
    version: '0.0.0',
    settings: defaultSettings('edge'),
    heldBack: null,
  }),
  requestStop: () => ({ kind: 'not-allowed', pid: process.pid, command: 'test' }),
};
await serveSocket({ socketPath, verbs, ...holder, clock, alarm: realAlarm(clock), log: () => {} });

const { moduleLoadList } = process as unknown as { readonly moduleLoadList: readonly string[] };
const report = (name: string) => {
  const resources = process.getActiveResourcesInfo();
  const hasHttp = moduleLoadList.some((entry) => entry.endsWith(' _http_server'));
  writeSync(1, `${JSON.stringify({ name, resources, hasHttp })}\n`);
};
process.on('SIGUSR2', () => report('report'));
report('ready');
