// Everything that a protocol may read, by name: the vocabulary that both stores implement. A read that depends on
// another is one read by the outer key, so that a database across a network answers all of a protocol's reads at once.
import type { AdmissionEvidence } from '../core/admission.ts';
import type { EventType, RunEvent } from '../core/events.ts';
import type { Plan, PlanStep } from '../core/plan.ts';
import type { Installation, LifecycleEvent, Publication } from '../core/publication.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../core/records.ts';
import type { MaterializedRevision, MaterializedTask } from '../core/revision.ts';
import type { RunStatus } from '../core/states.ts';

/** What outlives a pruned run: its plan id and idempotency key, until `expiresAtMs`. */
export type AdmissionKey = {
  readonly projectId: string;
  readonly idempotencyKey: string | null;
  readonly planId: string;
  readonly planDigest: string;
  readonly packageName: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly receiptDigest: string;
  readonly expiresAtMs: number;
};

/** The present facts about a package: its heads and what they name. */
export type PackageHead = {
  readonly installation: Installation;
  readonly publication: Publication;
  readonly lifecycle: LifecycleEvent;
  readonly revision: MaterializedRevision;
  readonly isQuarantined: boolean;
};

/** The facts that decide whether an installation may start anything. */
export type StartFacts = {
  readonly head: PackageHead | null;
  readonly isQuarantined: boolean;
  readonly isPublisherRevoked: boolean;
};

/** One step about to be attempted, with what its plan says about it. */
export type StepContext = {
  readonly rows: RunRows;
  readonly step: StepRun;
  /** All attempts of this step, by number. */
  readonly attempts: readonly RunAttempt[];
  readonly lastAttemptNumber: number;
  readonly planStep: PlanStep;
  readonly plan: Plan;
  readonly task: MaterializedTask;
  readonly isQuarantined: boolean;
};

export type RunCursor = { readonly admittedAtMs: number; readonly planDigest: string };
export type RunPage = { readonly runIds: readonly string[]; readonly next: RunCursor | null };
export type StepPlace = { readonly runId: string; readonly stepRunId: string };
export type StepPage = { readonly steps: readonly StepPlace[]; readonly next: RunCursor | null };

export type SetAside = {
  readonly runId: string;
  readonly code: string;
  readonly summary: string;
  readonly atMs: number;
};

export type RunSummary = {
  readonly run: Run | null;
  readonly runId: string;
  readonly setAside: SetAside | null;
};

export type Reads = {
  /** The plan of a run; null where the run is unknown. */
  plan: { args: { runId: string }; rows: Plan | null };
  /** The run, all its steps, and its attempts that have not ended. */
  run: { args: { runId: string }; rows: RunRows | null };
  /** The run, all its steps and all its attempts. */
  wholeRun: { args: { runId: string }; rows: RunRows | null };
  /** One step of a run, for the protocols that concern an attempt. */
  step: { args: StepPlace; rows: StepContext | null };
  events: { args: { runId: string; after: number; limit: number }; rows: readonly RunEvent[] };
  /** Numbers of the newest events of these types, for the bound on news. */
  eventCount: { args: { runId: string; types: readonly EventType[] }; rows: number };
  admission: { args: { planId: string }; rows: AdmissionEvidence | null };
  admissionOfRun: { args: { runId: string }; rows: AdmissionEvidence | null };
  /** The admission that an idempotency key led to; null also where its run was pruned. */
  admissionOfStart: { args: { projectId: string; idempotencyKey: string }; rows: AdmissionEvidence | null };
  keyOfPlan: { args: { planId: string }; rows: AdmissionKey | null };
  keyOfStart: { args: { projectId: string; idempotencyKey: string }; rows: AdmissionKey | null };
  /** Ids that begin with `prefix`, in their order: for people, who do not type whole ones. */
  runIds: { args: { prefix: string; limit: number }; rows: readonly string[] };
  isRunKnown: { args: { runId: string }; rows: boolean };
  package: { args: { projectId: string; packageName: string }; rows: PackageHead | null };
  packages: { args: { projectId: string }; rows: readonly PackageHead[] };
  startFacts: {
    args: { projectId: string; packageName: string; installationId: string; lockDigest: string };
    rows: StartFacts;
  };
  /** Whether these bytes were quarantined under this package, in whichever installation. */
  isLockQuarantined: { args: { projectId: string; packageName: string; lockDigest: string }; rows: boolean };
  installations: { args: { projectId: string }; rows: readonly Installation[] };
  /** Running runs that the frontier would move, oldest first; none that only waits, was set aside or is cancelled. */
  candidates: { args: { limit: number; after: RunCursor | null }; rows: RunPage };
  /** Ready steps without an attempt in their epoch, of runs without a cancel intent, oldest run first. */
  readySteps: { args: { limit: number; after: RunCursor | null }; rows: StepPage };
  runningRuns: { args: { limit: number; after: RunCursor | null }; rows: RunPage };
  /** Running runs of one installation without a cancel intent: whom a quarantine still has to reach. */
  runsOfInstallation: { args: { installationId: string; limit: number }; rows: readonly string[] };
  runs: {
    args: { limit: number; beforeRunId: string | null; status: RunStatus | null; packageName: string | null };
    rows: readonly RunSummary[];
  };
  setAside: { args: { runId: string }; rows: SetAside | null };
  allSetAside: { args: { limit: number }; rows: readonly SetAside[] };
};

export type ReadName = keyof Reads;

export type ReadRequest<N extends ReadName = ReadName> = {
  readonly [K in N]: { readonly name: K; readonly args: Reads[K]['args'] };
}[N];

/** Names a read; the store carries it out. */
export function read<N extends ReadName>(name: N, args: Reads[N]['args']): ReadRequest<N> {
  return { name, args } as ReadRequest<N>;
}

export type RequestMap = { readonly [key: string]: ReadRequest };

/** The rows that a protocol's `load` asked for, under its own names. */
export type RowsOf<L extends RequestMap> = {
  readonly [K in keyof L]: L[K] extends { readonly name: infer N extends ReadName } ? Reads[N]['rows'] : never;
};
