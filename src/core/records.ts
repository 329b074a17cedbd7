// The current-state records that `evolve` yields: Run, StepRun, RunAttempt; and the events that they fold from.
// Plain data. `null` stands for none. Times are integer milliseconds of the wall clock unless a name says uptime.
import type {
  AttemptStatus,
  CancelReason,
  ExecutorType,
  RunStatus,
  StepKind,
  StepStatus,
  StopReason,
} from './states.ts';

/** A stretch of time that survives a reboot and a wrong clock: deadlines and due times (deadline.ts reads it). */
export type Span = {
  readonly startMs: number;
  readonly startUptimeMs: number;
  readonly bootId: string;
  readonly lengthMs: number;
};

export const runTriggerType = 'plugin_package_workflow';

export type Run = {
  readonly id: string;
  readonly projectId: string;
  readonly planId: string;
  readonly planDigest: string;
  readonly workflowId: string;
  readonly publicationDigest: string;
  readonly packageName: string;
  readonly generation: number;
  readonly triggerType: typeof runTriggerType;
  readonly triggerId: string | null;
  readonly scheduledForMs: number | null;
  readonly requestedBy: string;
  readonly idempotencyKey: string | null;
  readonly status: RunStatus;
  readonly version: number;
  readonly eventSequence: number;
  readonly createdAtMs: number;
  readonly startedAtMs: number;
  /** Time of the last event: no later observation of this run is earlier. */
  readonly updatedAtMs: number;
  readonly finishedAtMs: number | null;
  readonly deadline: Span | null;
  readonly cancelRequestedAtMs: number | null;
  readonly cancelReason: CancelReason | null;
  readonly retryOfRunId: string | null;
  readonly errorCode: string | null;
  readonly errorSummary: string | null;
  readonly historyDigest: string;
  readonly digest: string;
};

export type StepRun = {
  readonly schema: 'qinglong/step-run@v1';
  readonly id: string;
  readonly runId: string;
  readonly stepKey: string;
  readonly kind: StepKind;
  readonly taskRef: string;
  readonly taskSourceDigest: string;
  readonly required: boolean;
  readonly status: StepStatus;
  /** Rises with every mutation; while ready, it is the epoch in which one attempt may be admitted. */
  readonly version: number;
  /** How often the step entered `running`, so a command that takes the router down with it is counted. */
  readonly attemptCount: number;
  readonly readyAtMs: number | null;
  readonly due: Span | null;
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  readonly resultCode: string | null;
  readonly errorSummary: string | null;
  readonly inputRef: string | null;
  readonly outputRef: string | null;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  readonly lastMutationId: string;
  readonly digest: string;
};

export type RunAttempt = {
  readonly id: string;
  readonly runId: string;
  readonly stepRunId: string;
  /** Counted from 1 over the whole run. */
  readonly number: number;
  /** The step run's epoch that this attempt was admitted in. */
  readonly stepRunVersion: number;
  readonly status: AttemptStatus;
  readonly executorType: ExecutorType;
  readonly taskRef: string;
  readonly executionDigest: string;
  readonly deadline: Span | null;
  readonly bootId: string | null;
  /** A stop that was durable before the command ended: it decides over the exit code. */
  readonly stopReason: StopReason | null;
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly outputBytes: number | null;
  readonly outputTruncated: boolean | null;
  /** How long the command ran, by the monotonic clock; null where nobody knows, or nothing ran. */
  readonly durationMs: number | null;
  readonly errorCode: string | null;
  readonly errorSummary: string | null;
  readonly claimedAtMs: number;
  readonly digest: string;
};

/** The records of one run, or the slice of them that a protocol read. */
export type RunRows = {
  readonly run: Run;
  readonly steps: ReadonlyMap<string, StepRun>;
  readonly attempts: ReadonlyMap<string, RunAttempt>;
};
