// One operation on one site, as often as it is needed: observed once, then killed at one of its points, judged, and
// brought to its end. Owns the site's folder and what stands beside it.
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { judgeDatabase } from '../database.ts';
import {
  databaseOf,
  type Ended,
  EvidenceError,
  type Mode,
  type Operation,
  runBundle,
  type Site,
  siteAt,
} from '../operation.ts';
import { findProcessesOf, killProcess, waitForProcesses } from '../processes.ts';
import { clearFolder, copyTree } from '../site-copy.ts';
import type { Observation, Reached } from './point.ts';
import { preloadWith } from './preload.ts';

export type Bench = {
  readonly operation: Operation;
  readonly site: Site;
  /** Of an execution that nobody cut. */
  readonly observation: Observation;
  readonly finalFacts: string;
  /** What was wrong with that execution already; nothing is killed then. */
  readonly failures: readonly string[];
};

export type WindowResult = {
  /** The name of the point that it died at; null where it died at none. */
  readonly point: string | null;
  readonly failures: readonly string[];
  /** Rows of runs and their admissions that the kill left. */
  readonly runRows: number;
  /** The answers that brought it to its end. */
  readonly replays: readonly Ended[];
  /** How often an execution went another way before one came to the point: its commands have their own time. */
  readonly strayed: number;
};

type Folders = { readonly bundle: string; readonly mode: Mode; readonly root: string };

/** How long what a run has started may need to be gone behind it. */
const goneMsMax = 3_000;

/** Prepares an operation below `root` and observes one execution of it. Rejects only where nothing can be prepared. */
export async function openBench(operation: Operation, { bundle, mode, root }: Folders): Promise<Bench> {
  const site = siteAt(join(root, 'site'), { bundle, mode });
  mkdirSync(site.root, { recursive: true });
  await operation.prepare(site);
  copyTree(site.root, preparedOf(site));
  const before = judgeCopy(site);
  const ended = await runBundle(site, operation.act(site), preloaded(site, null));
  const observation = readReport<Observation>(site);
  if (observation === null) {
    throw new EvidenceError(`${operation.name} cannot be observed: ${ended.err.trim() || `exit code ${ended.code}`}`);
  }
  const failures = operation.findTrouble(site, ended);
  const after = judgeCopy(site);
  return {
    operation,
    site,
    observation: beginWith(before.facts, observation),
    finalFacts: after.facts,
    failures: [...before.trouble, ...failures, ...after.trouble].map((what) => `not cut: ${what}`),
  };
}

/** The process itself does not know what it was prepared with; if it looked before it wrote, it saw just that. */
function beginWith(before: string, observation: Observation): Observation {
  const { points, facts } = observation;
  const [, ...seen] = facts;
  const skipped = seen[0] === before ? 1 : 0;
  return {
    ...observation,
    points: points.map((point) => ({ ...point, facts: Math.max(0, point.facts - skipped) })),
    facts: [before, ...seen.slice(skipped)],
  };
}

export function closeBench({ site }: Pick<Bench, 'site'>): void {
  clearFolder(site.root);
  rmSync(preparedOf(site), { recursive: true, force: true });
  rmSync(judgedOf(site), { recursive: true, force: true });
}

/** Executions of one window: where commands run, a turn may take in what was two turns before. */
const triesMax = 3;

/** Kills an execution at a point (counted from 1), judges what is left, and brings it to its end `replays` times. */
export async function openWindow(bench: Bench, number: number, replays: number): Promise<WindowResult> {
  const { operation, site, observation } = bench;
  const expected = observation.points[number - 1];
  const failures: string[] = [];
  const expect = (what: string) => failures.push(`${expected?.name} (point ${number}): ${what}`);
  let strayed = 0;
  let killed = await killAt(bench, number);
  while (killed.point !== expected?.name && !operation.endsAlike && strayed + 1 < triesMax) {
    strayed += 1;
    killed = await killAt(bench, number);
  }
  if (killed.point !== expected?.name) {
    const { ended, point } = killed;
    const how = point === null ? `it ended with ${ended.signal ?? ended.code}: ${ended.err.trim()}` : `it was ${point}`;
    expect(`it was not killed there in ${strayed + 1} executions; in the last one ${how}`);
  }
  const left = judgeCopy(site);
  left.trouble.forEach(expect);
  if (left.facts !== observation.facts[expected?.facts ?? 0]) {
    const place = observation.facts.indexOf(left.facts);
    expect(`it holds ${place < 0 ? 'what no commit made' : `what commit ${place} made`}, not ${expected?.facts}`);
  }
  const answers: Ended[] = [];
  for (let count = 0; count < replays; count += 1) {
    const answer = await runBundle(site, operation.again(site));
    answers.push(answer);
    findEndTrouble(bench, answer).forEach(expect);
  }
  for (const { pid } of operation.endsAlike || replays === 0 ? [] : await waitForProcesses(site.root, goneMsMax)) {
    expect(`process ${pid} is left behind`);
  }
  return { point: killed.point, failures, runRows: countRunRows(left.facts), replays: answers, strayed };
}

type Killed = { readonly ended: Ended; readonly point: string | null };

async function killAt({ operation, site }: Bench, number: number): Promise<Killed> {
  if (!operation.endsAlike) {
    findProcessesOf(site.root).forEach(killProcess);
  }
  copyTree(preparedOf(site), site.root);
  const ended = await runBundle(site, operation.act(site), preloaded(site, number));
  const reached = readReport<Reached>(site);
  return { ended, point: ended.signal === 'SIGKILL' && reached !== null ? reached.name : null };
}

function findEndTrouble({ operation, site, finalFacts }: Bench, answer: Ended): readonly string[] {
  const end = judgeCopy(site);
  if (end.trouble.length > 0) {
    return end.trouble.map((what) => `then ${what}`);
  }
  const isAlike = !operation.endsAlike || end.facts === finalFacts;
  const trouble = operation.findTrouble(site, answer).map((what) => `then ${what}`);
  return isAlike ? trouble : [...trouble, 'then it does not end as one that was not cut'];
}

const preparedOf = (site: Site) => `${site.root}.prepared`;
const judgedOf = (site: Site) => `${site.root}.judged`;
const reportOf = (site: Site) => `${judgedOf(site)}/reached.json`;

function preloaded(site: Site, kill: number | null) {
  mkdirSync(judgedOf(site), { recursive: true });
  rmSync(reportOf(site), { force: true });
  return preloadWith({ kill, file: reportOf(site) });
}

function readReport<T>(site: Site): T | null {
  return existsSync(reportOf(site)) ? (JSON.parse(readFileSync(reportOf(site), 'utf8')) as T) : null;
}

/** On a copy: what a killed process has left is rolled back there, and by the product itself in its own place. */
function judgeCopy(site: Site) {
  const copy = join(judgedOf(site), 'qinglong.db');
  mkdirSync(judgedOf(site), { recursive: true });
  for (const ending of ['', '-journal', '-wal']) {
    rmSync(`${copy}${ending}`, { force: true });
    if (existsSync(`${databaseOf(site)}${ending}`)) {
      copyFileSync(`${databaseOf(site)}${ending}`, `${copy}${ending}`);
    }
  }
  return judgeDatabase(copy);
}

const runTables = [
  ...['RunIdentities', 'RunRecords', 'RunEvents', 'RunAttempts', 'AdmissionKeys'],
  ...['QingLong3PluginPackageWorkflowAdmissions', 'QingLong3PluginPackageWorkflowAdmissionSteps'],
];

function countRunRows(facts: string): number {
  let isCounted = false;
  let count = 0;
  for (const line of facts.split('\n').filter((text) => text !== '')) {
    const isRow = line.startsWith('  ');
    isCounted = isRow ? isCounted : runTables.includes(line);
    count += isRow && isCounted ? 1 : 0;
  }
  return count;
}
