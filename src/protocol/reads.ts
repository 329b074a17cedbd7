// Everything that a protocol may read, by name: the vocabulary that both stores implement. A read that depends on
// another is one read by the outer key, so that a database across a network answers all of a protocol's reads at once.
import type { AdmissionEvidence } from '../core/admission.ts';
import type { EventType, RunEvent } from '../core/events.ts';
import type { PackageSetting } from '../core/package-setting.ts';
import type { Plan, PlanStep } from '../core/plan.ts';
import type { Installation, LifecycleEvent, Publication } from '../core/publication.ts';
import type { Publisher } from '../core/publisher.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../core/records.ts';
import type { MaterializedRevision, MaterializedTask, MaterializedWorkflow, PackageFile } from '../core/revision.ts';
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
  /** As whoever did that gave it; null where nobody did. */
  readonly quarantineReason: string | null;
  readonly isPublisherRevoked: boolean;
};

/** The facts that decide whether an installation may start anything. */
export type StartFacts = {
  readonly head: PackageHead | null;
  readonly isQuarantined: boolean;
  readonly quarantineReason: string | null;
  readonly isPublisherRevoked: boolean;
};

/** What keeps bytes from being installed, whoever signs them now. */
export type LockCondemnation = {
  readonly isQuarantined: boolean;
  readonly quarantineReason: string | null;
  /** The first of the revoked keys that signed them. */
  readonly revokedKey: { readonly keyId: string; readonly reason: string } | null;
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
  readonly workflow: MaterializedWorkflow;
  /** What this device has set of the settings that the task asks for. */
  readonly settings: readonly PackageSetting[];
  readonly isQuarantined: boolean;
  readonly isPublisherRevoked: boolean;
};

export type RunCursor = { readonly admittedAtMs: number; readonly planDigest: string };
export type RunPage = { readonly runIds: readonly string[]; readonly next: RunCursor | null };
export type StepPlace = { readonly runId: string; readonly stepRunId: string };
/** The names, so that whoever starts it can count what runs of its workflow without reading it whole. */
export type ReadyStep = StepPlace & { readonly packageName: string; readonly workflowId: string };
export type StepPage = { readonly steps: readonly ReadyStep[]; readonly next: RunCursor | null };

export type SetAside = {
  readonly runId: string;
  readonly code: string;
  readonly summary: string;
  readonly atMs: number;
};

/** A run that is not over and whose own rows are damaged so that nothing else leads to it. */
export type StrayRun = { readonly runId: string; readonly trouble: string };

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
  /** Runs that retry this one, oldest first. */
  retriesOfRun: { args: { runId: string; limit: number }; rows: readonly string[] };
  package: { args: { projectId: string; packageName: string }; rows: PackageHead | null };
  packages: { args: { projectId: string }; rows: readonly PackageHead[] };
  /** The present head of the package that a run is of; null where either is gone. */
  packageOfRun: { args: { runId: string }; rows: PackageHead | null };
  /** Everything that this device has set for a package, asked for or not, by name. */
  settings: { args: { projectId: string; packageName: string }; rows: readonly PackageSetting[] };
  startFacts: {
    args: { projectId: string; packageName: string; installationId: string; lockDigest: string };
    rows: StartFacts;
  };
  /** What forbids these bytes under this package, in whichever installation it was that they were in. */
  lockCondemnation: {
    args: { projectId: string; packageName: string; lockDigest: string };
    rows: LockCondemnation;
  };
  installations: { args: { projectId: string }; rows: readonly Installation[] };
  /** Every file that a lock digest covers; null for one that was never installed. */
  packageFiles: { args: { lockDigest: string }; rows: readonly PackageFile[] | null };
  publisher: { args: { keyId: string }; rows: Publisher | null };
  publishers: { args: Record<never, never>; rows: readonly Publisher[] };
  /** Running runs that the frontier would move, oldest first; none that only waits, was set aside or is cancelled. */
  candidates: { args: { limit: number; after: RunCursor | null }; rows: RunPage };
  /** Ready steps without an attempt in their epoch, of runs without a cancel intent, oldest run first. */
  readySteps: {
    /** `except`: `package/workflow` of those that have as many commands as they may. */
    args: { limit: number; after: RunCursor | null; except?: readonly string[] };
    rows: StepPage;
  };
  /** Steps with an attempt that has not ended, of runs that are not set aside, in the order of their attempts. */
  activeSteps: { args: { limit: number }; rows: readonly StepPlace[] };
  /** How many of those steps are of one workflow, in all its generations. */
  busyOfWorkflow: { args: { packageName: string; workflowId: string }; rows: number };
  /** Runs that are running and not set aside, and runs that are set aside. */
  runCounts: {
    args: Record<never, never>;
    rows: { readonly runningCount: number; readonly setAsideCount: number };
  };
  runningRuns: { args: { limit: number; after: RunCursor | null }; rows: RunPage };
  /** Those that are not set aside, in the order of their ids; `after` is the last one of the page before. */
  strayRuns: { args: { limit: number; after?: string }; rows: readonly StrayRun[] };
  /** Running runs without a cancel intent whose installation is quarantined, or signed by a key that was revoked. */
  condemnedRuns: { args: { limit: number; after: RunCursor | null }; rows: RunPage };
  runs: {
    args: { limit: number; beforeRunId: string | null; status: RunStatus | null; packageName: string | null };
    rows: readonly RunSummary[];
  };
  setAside: { args: { runId: string }; rows: SetAside | null };
  /** In the order of their ids; `after` is the last one of the page before. */
  allSetAside: { args: { limit: number; after?: string }; rows: readonly SetAside[] };
};

export type ReadName = keyof Reads;

export type ReadRequest<N extends ReadName = ReadName> = {
  readonly [K in N]: { readonly name: K; readonly args: Reads[K]['args'] };
}[N];

/** Names a read; the store carries it out. */
export function read<N extends ReadName>(name: N, args: Reads[N]['args']): ReadRequest<N> {
  return { name, args } as ReadRequest<N>;
}

/** The first run that reads name; null where none does. */
export function findRun(requests: readonly ReadRequest[]): string | null {
  for (const { args } of requests) {
    if ('runId' in args) {
      return args.runId;
    }
  }
  return null;
}

export type RequestMap = { readonly [key: string]: ReadRequest };

/** The rows that a protocol's `load` asked for, under its own names. */
export type RowsOf<L extends RequestMap> = {
  readonly [K in keyof L]: L[K] extends { readonly name: infer N extends ReadName } ? Reads[N]['rows'] : never;
};
