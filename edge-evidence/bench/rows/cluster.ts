// Workflows on PostgreSQL, beside other libraries on the same server: one on the disk of the scratch, as it is by
// default (fsync and synchronous_commit on), with a fresh database for every sample, one process after the other.
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { startPostgres } from '../../postgres-server.ts';
import { type Bench, interleave, type Row, withPlace } from '../bench-run.ts';
import { atLeast, atMost, type Figure, makeFigure, median } from '../figure.ts';
import { chainOf, postgresFile, runProgram, writePackage } from '../programs.ts';

type Answer = {
  readonly admissionMs: readonly number[];
  readonly singlesPerSecond: number;
  readonly stepsPerSecond: number;
  readonly tripsPerAdmission: number | null;
  readonly tripsPerStep: number | null;
};

type Floor = { readonly commitMs: readonly number[]; readonly perSecond: number };

type Measured = {
  readonly product: readonly Answer[];
  readonly floor: readonly Floor[];
  readonly peers: readonly { readonly name: string; readonly answers: readonly Answer[] }[];
};

const workload = { length: 8, chains: 200, singles: 1_000, atOnce: 32 };
const commits = 400;
const times = 3;
const tripsMax = 3;

async function findPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

type Server = {
  /** In a fresh database, which goes again. */
  withDatabase<T>(work: (url: string) => Promise<T>): Promise<T>;
  close(): Promise<void>;
};

async function startServer(root: string): Promise<Server> {
  const port = await findPort();
  const max = `${workload.atOnce + 32}`;
  const settings = { listen_addresses: '127.0.0.1', port: `${port}`, max_connections: max };
  const server = await startPostgres(settings, root);
  const urlOf = (database: string) => `postgres://${server.superuser}@127.0.0.1:${port}/${database}`;
  const ask = async (...statements: readonly string[]) => {
    const client = new pg.Client({ connectionString: urlOf('postgres') });
    client.on('error', () => {});
    await client.connect();
    for (const statement of statements) {
      await client.query(statement);
    }
    await client.end();
  };
  let count = 0;
  return {
    async withDatabase(work) {
      count += 1;
      const database = `bench_${count}`;
      // What an earlier sample left to be written is not written at this one's cost.
      await ask(`CREATE DATABASE ${database}`, 'CHECKPOINT');
      try {
        return await work(urlOf(database));
      } finally {
        await ask(`DROP DATABASE ${database} WITH (FORCE)`);
      }
    },
    close: () => server.close(),
  };
}

function writeWork(place: string): string {
  return writePackage(join(place, 'chain'), {
    name: 'chain',
    tasks: { work: { run: ['/bin/true'] } },
    workflows: { main: chainOf(workload.length), one: { steps: { one: { task: 'work' } } } },
  });
}

async function measure(bench: Bench, server: Server): Promise<Measured> {
  const product = () =>
    withPlace(bench, (place) =>
      server.withDatabase((url) => {
        const data = join(place, 'data');
        mkdirSync(data);
        const own = { library: postgresFile(bench), data, package: writeWork(place) };
        return runProgram<Answer>('cluster-product.mjs', { ...workload, ...own, url });
      }),
    );
  const floor = () =>
    server.withDatabase((url) => runProgram<Floor>('cluster-raw.mjs', { url, commits, atOnce: workload.atOnce }));
  const peers = bench.peers.map(({ name, program, folder }) => {
    const run = () => server.withDatabase((url) => runProgram<Answer>(program, { ...workload, folder, url }));
    return [`peer ${name}`, run] as const;
  });
  const samples = await interleave<string, Answer | Floor>(bench.repeats, {
    floor,
    product,
    ...Object.fromEntries(peers),
  });
  return {
    product: (samples['product'] ?? []) as Answer[],
    floor: (samples['floor'] ?? []) as Floor[],
    peers: bench.peers.map(({ name }) => ({ name, answers: (samples[`peer ${name}`] ?? []) as Answer[] })),
  };
}

function readAll({ product, floor, peers }: Measured, reading: (answer: Answer) => number, ofFloor: FloorReading) {
  return {
    values: product.map(reading),
    floors: floor.map(ofFloor),
    peers: peers.map(({ name, answers }) => ({ name, values: answers.map(reading) })),
  };
}

type FloorReading = (floor: Floor) => number;

/** The value below which so large a part of the samples lies. */
function quantile(samples: readonly number[], part: number): number {
  const sorted = [...samples].sort((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
}

function throughputs(measured: Measured): readonly Figure[] {
  const budget = (_: number, peers: readonly number[]) =>
    atLeast(Math.max(...peers) * times, `${times} x the best peer, same server`);
  const note = `the floor is one-row commits on ${workload.atOnce} sessions; pg-boss and graphile-worker are queues`;
  const perSecond: FloorReading = (floor) => floor.perSecond;
  return [
    makeFigure({
      name: 'PostgreSQL: 1,000 one-step workflows, admitted and carried out',
      unit: 'workflows/s',
      ...readAll(measured, (answer) => answer.singlesPerSecond, perSecond),
      budget,
      note,
    }),
    makeFigure({
      name: `PostgreSQL: ${workload.chains} chains of ${workload.length}, ${workload.atOnce} at once`,
      unit: 'steps/s',
      ...readAll(measured, (answer) => answer.stepsPerSecond, perSecond),
      budget,
      note,
    }),
  ];
}

function latencies(measured: Measured): readonly Figure[] {
  const note = '200 one after the other, nobody works on them; the floor is a raw one-row commit';
  return [
    makeFigure({
      name: 'PostgreSQL: one admission, until it is durable',
      unit: 'ms',
      ...readAll(
        measured,
        ({ admissionMs }) => median(admissionMs),
        ({ commitMs }) => median(commitMs),
      ),
      note,
    }),
    makeFigure({
      name: 'PostgreSQL: the same, 95 of 100',
      unit: 'ms',
      ...readAll(
        measured,
        ({ admissionMs }) => quantile(admissionMs, 0.95),
        ({ commitMs }) => quantile(commitMs, 0.95),
      ),
      note,
    }),
    makeFigure({
      name: 'PostgreSQL: round trips of one admission',
      unit: 'trips',
      values: measured.product.map(({ tripsPerAdmission }) => tripsPerAdmission ?? Number.NaN),
      budget: () => atMost(tripsMax, `${tripsMax}`),
    }),
    makeFigure({
      name: 'PostgreSQL: round trips of one step in a chain, all that a run costs shared out',
      unit: 'trips',
      values: measured.product.map(({ tripsPerStep }) => tripsPerStep ?? Number.NaN),
    }),
  ];
}

async function collect(bench: Bench): Promise<readonly Figure[]> {
  const server = await startServer(bench.root);
  try {
    bench.note(`PostgreSQL: ${['product', ...bench.peers.map(({ name }) => name)].join(', ')}`);
    const measured = await measure(bench, server);
    return [...throughputs(measured), ...latencies(measured)];
  } finally {
    await server.close();
  }
}

export const clusterRow: Row = { name: 'cluster', collect };
