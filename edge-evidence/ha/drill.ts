// What all stages of the drill work on.
import { randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import { buildPlan, type Plan } from '../../src/core/plan.ts';
import type { GenerationTarget } from '../../src/core/publication.ts';
import type { MaterializedRevision } from '../../src/core/revision.ts';
import { canonicalText } from '../fold-form.ts';
import { EvidenceError } from '../operation.ts';
import type { Ground } from './ground.ts';
import { admissionOf, type KnownRun, type Ledger } from './ledger.ts';
import type { RuntimeProcess } from './runtime-process.ts';
import type { Scoreboard } from './scoreboard.ts';

/** The present generation of the package, as far as planning asks for it. */
export type Head = {
  readonly installation: { readonly target: GenerationTarget };
  readonly publication: { readonly publicationDigest: string };
  readonly revision: MaterializedRevision;
};

export type Drill = {
  readonly ground: Ground;
  readonly board: Scoreboard;
  readonly ledger: Ledger;
  /** How many runs are admitted before the failover, those of single gates beside them. */
  readonly runCount: number;
  readonly log: (line: string) => void;
  /** The runtime of before the failover, which knows the old primary alone. */
  readonly first: RuntimeProcess;
  readonly head: Head;
  /** One long session with the server that is the standby first, through its promotion. */
  readonly watch: Client;
};

/** A plan of one more run, known to the ledger from now on. */
export function planRun({ head, ledger }: Pick<Drill, 'head' | 'ledger'>, workflowId: string): KnownRun {
  const planned = buildPlan({
    planId: randomUUID(),
    runId: randomUUID(),
    target: head.installation.target,
    publicationDigest: head.publication.publicationDigest,
    revision: head.revision,
    workflowId,
    nowMs: Date.now(),
  });
  if ('refusal' in planned) {
    throw new EvidenceError(`the drill cannot plan a run: ${planned.refusal.reason}`);
  }
  const run = { plan: planned.plan, receipt: null, before: null, isInDoubt: false };
  ledger.runs.set(planned.plan.runId, run);
  return run;
}

export type Admitted = { readonly kind: string; readonly receipt?: unknown };

/** Admits a planned run that is new, and notes its receipt. */
export async function admitRun(runtime: RuntimeProcess, run: KnownRun): Promise<void> {
  const outcome = await runtime.order<Admitted>(admissionOf(run.plan));
  noteReceipt(run, outcome, 'created');
}

/** Notes the receipt of an acknowledged admission. Throws EvidenceError for any other kind of answer. */
export function noteReceipt(run: KnownRun, outcome: Admitted, kind: string): void {
  if (outcome.kind !== kind) {
    throw new EvidenceError(`plan ${run.plan.planId} was answered ${canonicalText(outcome)}, and not ${kind}`);
  }
  run.receipt = canonicalText(outcome.receipt);
}

export function stepOf(plan: Plan, stepKey: string): { readonly runId: string; readonly stepRunId: string } {
  const step = plan.steps.find((entry) => entry.stepKey === stepKey);
  if (step === undefined) {
    throw new EvidenceError(`workflow ${plan.workflowId} has no step ${stepKey}`);
  }
  return { runId: plan.runId, stepRunId: step.stepRunId };
}

/** A run's version as everybody may see it through that session now; 0 where there is none. */
export async function versionOf(session: Client, runId: string): Promise<number> {
  const { rows } = await session.query<{ version: number }>('SELECT version FROM ql3.runs WHERE run_id = $1', [runId]);
  return rows[0]?.version ?? 0;
}
