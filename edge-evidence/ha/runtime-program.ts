// One runtime of the drill, a process of its own: the store of the shipped bundle on one database, and nothing of the
// product beside it. Carries out orders from stdin, line by line and side by side; ends with stdin.
//   node runtime-program.ts BUNDLE URL
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import type { Alarm, Clock, Ids } from '../../src/core/ports.ts';
import { decodeLine, encodeLine, type Failure, type Order } from './wire.ts';
import { type Store, takeOver, work } from './worker.ts';

type Bundle = Readonly<Record<string, unknown>> & {
  openPostgresStore(options: object): Promise<Omit<Store, 'submit'> & { submit(operation: unknown): Promise<unknown> }>;
  operation(protocol: unknown, input: unknown): unknown;
};

const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
const uptimeMs = () => Math.round(Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000);
const clock: Clock = { observe: () => ({ wallMs: Date.now(), uptimeMs: uptimeMs(), bootId }) };
const ids: Ids = { fresh: () => randomUUID() };
const alarm: Alarm = {
  set(atMs, ring) {
    const timer = setTimeout(ring, Math.max(0, atMs - uptimeMs()));
    return () => clearTimeout(timer);
  },
};

async function openStore(bundle: Bundle, url: string): Promise<Store> {
  const report = { failed: (_: unknown, error: unknown) => process.stderr.write(`${error}\n`) };
  // As many as operations may be in doubt at once.
  const options = { url, connectionsMax: 16, clock, alarm, ids, trustedFromMs: 0, report };
  const store = await bundle.openPostgresStore(options);
  return {
    submit: (protocol, input) => store.submit(bundle.operation(bundle[protocol], input)),
    read: (request) => store.read(request),
    close: () => store.close(),
  };
}

function carryOut(store: Store, order: Order): Promise<unknown> {
  switch (order.verb) {
    case 'submit':
      return store.submit(order.protocol, order.input);
    case 'read':
      return store.read({ name: order.name, args: order.args });
    case 'takeOver':
      return takeOver(store);
    case 'carryOn':
      return work(store, order.isBackwards);
  }
}

function describe(error: unknown): Failure {
  const { code = 'unexpected', message = `${error}` } = error as Partial<Failure>;
  return { code, message };
}

async function main([bundleFile = '', url = '']: readonly string[]): Promise<void> {
  const tell = (id: number, answer: object) => process.stdout.write(`${encodeLine({ id, ...answer })}\n`);
  let store: Store;
  try {
    store = await openStore(createRequire(import.meta.url)(bundleFile) as Bundle, url);
  } catch (error) {
    tell(0, { failure: describe(error) });
    return;
  }
  tell(0, { outcome: null });
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, ...order } = decodeLine(line) as Order & { readonly id: number };
    carryOut(store, order).then(
      (outcome) => tell(id, { outcome }),
      (error: unknown) => tell(id, { failure: describe(error) }),
    );
  }
  await store.close();
}

await main(process.argv.slice(2));
