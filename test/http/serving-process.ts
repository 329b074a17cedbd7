// A process that serves on the socket path in its argument and does nothing else. At each SIGUSR2 it writes one line:
// what keeps it alive, and whether it has loaded node:http. Not a test itself.
import { writeSync } from 'node:fs';
import { serveSocket } from '../../src/http/server.ts';
import { realAlarm, realClock } from '../../src/runtime/ports.ts';
import type { Verbs } from '../../src/runtime/verbs.ts';

const clock = realClock();
const verbs = {
  cancel: async () => ({ kind: 'not-found' }),
  follow: async function* () {},
} as Partial<Verbs> as Verbs;
const socketPath = process.argv[2]!;
await serveSocket({ socketPath, verbs, describe: () => ({}), clock, alarm: realAlarm(clock), log: () => {} });

const { moduleLoadList } = process as unknown as { readonly moduleLoadList: readonly string[] };
const report = (name: string) => {
  const resources = process.getActiveResourcesInfo();
  const hasHttp = moduleLoadList.some((entry) => entry.endsWith(' _http_server'));
  writeSync(1, `${JSON.stringify({ name, resources, hasHttp })}\n`);
};
process.on('SIGUSR2', () => report('report'));
report('ready');
