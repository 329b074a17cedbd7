// What was acknowledged before the failover, as canonical text: what must be there and answer alike afterwards.
import type { RunEvent } from '../../src/core/events.ts';
import type { Plan } from '../../src/core/plan.ts';
import type { RunRows } from '../../src/core/records.ts';
import { arrangeRows, type FoldedHistory } from '../fold.ts';
import { canonicalText } from '../fold-form.ts';
import type { RuntimeProcess } from './runtime-process.ts';

export type Snapshot = { readonly records: FoldedHistory; readonly events: readonly RunEvent[]; readonly text: string };

export type KnownRun = {
  readonly plan: Plan;
  /** Null for one of which no admission was acknowledged. */
  receipt: string | null;
  /** As it was when the failover began; null where it was not there. */
  before: Snapshot | null;
  /** An operation on it was under way at the failover. */
  isInDoubt: boolean;
};

export type KnownOperation = {
  readonly protocol: string;
  readonly input: unknown;
  /** What it is answered when it is given again, before the failover. */
  again: string | null;
};

export type Ledger = { readonly runs: Map<string, KnownRun>; readonly operations: KnownOperation[] };

export function openLedger(): Ledger {
  return { runs: new Map(), operations: [] };
}

const pageLength = 64;

/** A run as a runtime reads it; null where it knows none. */
export async function readSnapshot(runtime: RuntimeProcess, runId: string): Promise<Snapshot | null> {
  const rows = await runtime.read<RunRows | null>('wholeRun', { runId });
  if (rows === null) {
    return null;
  }
  const events: RunEvent[] = [];
  for (let page: readonly RunEvent[] | null = null; page === null || page.length === pageLength; ) {
    page = await runtime.read<readonly RunEvent[]>('events', { runId, after: events.length, limit: pageLength });
    events.push(...page);
  }
  const records = arrangeRows(rows);
  return { records, events, text: canonicalText({ records, events }) };
}

/** Everything acknowledged that is missing or other than it was; runs in doubt are looked at elsewhere. */
export async function findLost(runtime: RuntimeProcess, runs: Iterable<KnownRun>): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { plan, before, isInDoubt } of runs) {
    const now = await readSnapshot(runtime, plan.runId);
    if (before !== null && now === null) {
      found.push(`run ${plan.runId} is gone`);
    } else if (before !== null && now !== null && !isInDoubt && now.text !== before.text) {
      found.push(`run ${plan.runId} is at version ${now.records.run.version}, not ${before.records.run.version}`);
    } else if (before !== null && now !== null && isInDoubt && !beginsWith(now.events, before.events)) {
      found.push(`run ${plan.runId} has another history than before`);
    }
  }
  return found;
}

function beginsWith(events: readonly RunEvent[], first: readonly RunEvent[]): boolean {
  return canonicalText(events.slice(0, first.length)) === canonicalText(first);
}

type Admitted = { readonly kind: string; readonly receipt?: unknown };

/** Admissions that are not answered with the very receipt that was given out. */
export async function findOtherReceipts(runtime: RuntimeProcess, runs: Iterable<KnownRun>): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { plan, receipt } of runs) {
    if (receipt === null) {
      continue;
    }
    const answer = await runtime.give(admissionOf(plan)).answer;
    const outcome = 'outcome' in answer ? (answer.outcome as Admitted) : null;
    if (outcome?.kind !== 'existing' || canonicalText(outcome.receipt) !== receipt) {
      const why = 'failure' in answer ? `${answer.failure.code}: ${answer.failure.message}` : `${outcome?.kind}`;
      found.push(`plan ${plan.planId} is not answered with its receipt (${why})`);
    }
  }
  return found;
}

export function admissionOf(plan: Plan) {
  return { verb: 'submit', protocol: 'admit', input: { plan, requestedBy: 'drill' } } as const;
}
