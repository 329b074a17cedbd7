// `npm run bench`: every row of the budget table, each figure beside its floor from the same run. Prints a table on
// stderr and one JSON document on stdout, or into --out. Asserts nothing: a budget that is not met is told, no error.
//   npm run bench -- [--only ROW]… [--repeats N] [--profile edge|standalone] [--peers] [--out FILE]
//                    [--chart FILE.svg] [--from FILE] [--scratch DIR]
//   npm run bench:cluster -- [--repeats N] [--out FILE] …      workflows on PostgreSQL alone, always beside peers
// With --from nothing is measured: an earlier result is printed and drawn again.
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { EdgeError, isEdgeError } from '../src/core/errors.ts';
import { sha256 } from '../src/core/hash.ts';
import type { Bench, Row } from './bench/bench-run.ts';
import { drawChart } from './bench/chart.ts';
import { readBenchEnvironment } from './bench/environment.ts';
import type { Profile } from './bench/figure.ts';
import { openGround } from './bench/ground.ts';
import { providePeers } from './bench/peers.ts';
import { bundleFile, postgresFile } from './bench/programs.ts';
import { type BenchResult, limits, type ResultFigure, type Skipped, summarize } from './bench/result.ts';
import { rows as allRows } from './bench/rows/all.ts';
import { clusterRow } from './bench/rows/cluster.ts';
import { printTable } from './bench/table.ts';
import { readOrExit } from './usage.ts';

const allProfiles: readonly Profile[] = ['edge', 'standalone'];

function readArguments() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: [] },
      repeats: { type: 'string' },
      profile: { type: 'string' },
      peers: { type: 'boolean', default: false },
      cluster: { type: 'boolean', default: false },
      out: { type: 'string' },
      chart: { type: 'string' },
      from: { type: 'string' },
      // Not /tmp, which may be memory; ignored by git.
      scratch: { type: 'string', default: join(import.meta.dirname, '../figures.scratch') },
    },
  });
  const rows = values.cluster ? [clusterRow] : allRows;
  const repeats = Number(values.repeats ?? (values.cluster ? 3 : 5));
  const unknown = values.only.filter((name) => !rows.some((row) => row.name === name));
  const profiles = allProfiles.filter((profile) => values.profile === undefined || values.profile === profile);
  const mistakes = [
    ...(Number.isInteger(repeats) && repeats >= 1 ? [] : ['--repeats is a number from 1 on']),
    ...unknown.map((name) => `--only ${name}: the rows are ${rows.map((row) => row.name).join(', ')}`),
    ...(profiles.length > 0 ? [] : ['--profile is edge or standalone']),
    // Told now, not after ten minutes.
    ...(values.out !== undefined && existsSync(values.out) ? [`--out ${values.out} exists; it is not replaced`] : []),
  ];
  if (mistakes.length > 0) {
    throw new EdgeError('invalid', mistakes.join('; '), { hint: 'see the head of edge-evidence/bench.ts' });
  }
  return { ...values, peers: values.peers || values.cluster, repeats, profiles, rows };
}

type Arguments = ReturnType<typeof readArguments>;

async function collectRow(bench: Bench, row: Row): Promise<readonly ResultFigure[]> {
  try {
    const figures = await row.collect(bench);
    return figures.map((figure) => ({ row: row.name, ...figure }));
  } catch (error) {
    // One row that cannot be measured here takes none of the others away; it is told with the result.
    const reason = isEdgeError(error) ? `${error.message}; ${error.hint}` : `${error}`;
    bench.skip(row.name, reason);
    return [];
  }
}

function copyBundles(root: string): string {
  const dist = join(root, 'dist');
  cpSync(join(import.meta.dirname, '../dist'), dist, { recursive: true });
  return dist;
}

async function measureAll(given: Arguments): Promise<BenchResult> {
  const beganMs = performance.now();
  const startedAt = new Date().toISOString();
  const ground = openGround(given.scratch);
  const { scratch, root } = ground;
  const environment = readBenchEnvironment(scratch);
  const skipped: Skipped[] = [];
  const note = (line: string) => process.stderr.write(`${line}\n`);
  const skip = (name: string, reason: string) => {
    skipped.push({ name, reason });
    note(`not measured: ${name}: ${reason}`);
  };
  try {
    const dist = copyBundles(root);
    const { repeats, profiles, only, rows } = given;
    const database = given.cluster ? 'postgres' : 'sqlite';
    const peers = given.peers ? providePeers(database, { scratch, skip, note }) : [];
    const bench: Bench = { dist, scratch, root, repeats, profiles, peers, note, skip };
    const figures: ResultFigure[] = [];
    for (const row of rows.filter(({ name }) => only.length === 0 || only.includes(name))) {
      figures.push(...(await collectRow(bench, row)));
    }
    return {
      schema: 'qinglong/bench@v1',
      subject: readSubject(given.cluster ? postgresFile({ dist }) : bundleFile({ dist })),
      environment,
      parameters: { repeats, only, profiles, peers: given.peers },
      startedAt,
      tookS: Math.round((performance.now() - beganMs) / 1000),
      peers: peers.map(({ name, version, configuration }) => ({ name, version, configuration })),
      figures,
      skipped,
      summary: summarize(figures),
      limits,
    };
  } finally {
    ground.close();
  }
}

function readSubject(bundle: string): BenchResult['subject'] {
  const file = join(dirname(bundle), 'package.json');
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string };
  return { bundleSha256: sha256(readFileSync(bundle)), version };
}

const usage = `npm run bench -- [--only ROW]... [--repeats N] [--profile NAME] [--peers] [--out FILE] [--chart FILE.svg]
       [--from FILE] [--scratch DIR]
  ROW: ${allRows.map((row) => row.name).join(', ')}`;

async function benchAll(): Promise<void> {
  const given = readOrExit(usage, readArguments);
  const result =
    given.from === undefined ? await measureAll(given) : (JSON.parse(readFileSync(given.from, 'utf8')) as BenchResult);
  process.stderr.write(printTable(result));
  const text = `${JSON.stringify(result, null, 2)}\n`;
  if (given.out !== undefined) {
    writeFileSync(given.out, text, { flag: 'wx', mode: 0o600 });
  } else if (given.from === undefined) {
    process.stdout.write(text);
  }
  if (given.chart !== undefined) {
    writeFileSync(given.chart, drawChart(result));
  }
}

async function main(): Promise<void> {
  try {
    await benchAll();
  } catch (error) {
    if (!isEdgeError(error)) {
      throw error;
    }
    process.stderr.write(`bench: ${error.message}; ${error.hint}\n`);
    process.exitCode = 2;
  }
}

await main();
