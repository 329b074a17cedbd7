// A small world for the contract suite: one store with a clock that the test moves, and the operations in short form.
import type { Test } from 'tap';
import type { AttemptFacts } from '../../src/core/completion.ts';
import { digest, digestLabels } from '../../src/core/digest.ts';
import type { Plan } from '../../src/core/plan.ts';
import { buildPlan } from '../../src/core/plan.ts';
import type { Now } from '../../src/core/ports.ts';
import type { PackageSignature } from '../../src/core/publisher.ts';
import type { RunRows } from '../../src/core/records.ts';
import {
  type ManifestTask,
  type ManifestWorkflow,
  type MaterializedRevision,
  materialize,
} from '../../src/core/revision.ts';
import { admit, start } from '../../src/protocol/admit.ts';
import { advance } from '../../src/protocol/advance.ts';
import { admitAttempt, complete, startAttempt } from '../../src/protocol/attempt.ts';
import { cancel } from '../../src/protocol/cancel.ts';
import { changeLifecycle, install, quarantine } from '../../src/protocol/package.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { type PackageHead, read, type StepPlace } from '../../src/protocol/reads.ts';
import type { OperationStore } from '../../src/store/store.ts';

export const projectId = 'local';
export const packageName = 'sample';

/** A clock of which the test is the master. */
export type TestClock = { now: Now; observe(): Now; advance(ms: number): void };

export function createTestClock(wallMs = Date.UTC(2027, 0, 1)): TestClock {
  return {
    now: { wallMs, uptimeMs: 1_000_000, bootId: '11111111-1111-4111-8111-111111111111' },
    observe() {
      return this.now;
    },
    advance(ms) {
      this.now = { ...this.now, wallMs: this.now.wallMs + ms, uptimeMs: this.now.uptimeMs + ms };
    },
  };
}

export type World = {
  readonly clock: TestClock;
  readonly store: OperationStore;
};

/** One case of the contract, run against every store. */
export type ContractCase = {
  readonly name: string;
  readonly run: (t: Test, openWorld: (t: Test) => Promise<World>) => Promise<void>;
};

const sampleTask: ManifestTask = {
  id: 'work',
  title: null,
  enabled: true,
  argv: ['/bin/true'],
  env: {},
  cwd: '.',
  timeoutMs: 3_600_000,
  graceMs: 10_000,
  retry: { limit: 0, backoffMs: 5_000, factor: 2, maxMs: 60_000, on: ['failed', 'timed_out'] },
  user: null,
  nice: 0,
  limits: { memoryBytes: null, cpuMs: null, files: null },
};

/** A revision with the one workflow `main` of these steps (key → needs), each step with the task `work`. */
export function sampleRevision(
  options: {
    readonly steps?: Readonly<Record<string, readonly string[]>>;
    readonly task?: Partial<ManifestTask>;
    readonly workflow?: Partial<ManifestWorkflow>;
    readonly lock?: string;
  } = {},
): MaterializedRevision {
  const steps = options.steps ?? { one: [], two: ['one'] };
  const workflow: ManifestWorkflow = {
    id: 'main',
    title: null,
    enabled: true,
    timeoutMs: null,
    concurrency: null,
    steps: Object.keys(steps)
      .sort()
      .map((stepKey) => ({ stepKey, title: null, taskId: 'work', needs: [...steps[stepKey]!].sort() })),
    ...options.workflow,
  };
  const task = { ...sampleTask, ...options.task };
  const manifest = {
    schema: 'qinglong/package@v1' as const,
    name: packageName,
    version: '1.0.0',
    title: null,
    tasks: [task],
    workflows: [workflow],
  };
  return materialize(manifest, (options.lock ?? 'a').repeat(64));
}

export function installRevision(
  { store }: World,
  revision = sampleRevision(),
  options: { readonly signature?: PackageSignature | null; readonly allowUnsigned?: boolean } = {},
) {
  const { signature = null, allowUnsigned = true } = options;
  return store.submit(operation(install, { projectId, revision, files: [], signature, allowUnsigned }));
}

export async function packageHead({ store }: World): Promise<PackageHead> {
  const head = await store.read(read('package', { projectId, packageName }));
  if (head === null) {
    throw new TypeError('the package is not installed');
  }
  return head;
}

/** What planning `main` of a package as it is now comes to. */
export function planMain(head: PackageHead, { suffix, nowMs }: { readonly suffix: string; readonly nowMs: number }) {
  return buildPlan({
    planId: `plan-${suffix}`,
    runId: `run-${suffix}`,
    target: head.installation.target,
    publicationDigest: head.publication.publicationDigest,
    revision: head.revision,
    workflowId: 'main',
    nowMs,
  });
}

/** A plan of `main` for the present generation. */
export async function makePlan(world: World, suffix = '1'): Promise<Plan> {
  const planned = planMain(await packageHead(world), { suffix, nowMs: world.clock.now.wallMs });
  if ('refusal' in planned) {
    throw new TypeError(planned.refusal.reason);
  }
  return planned.plan;
}

/** A plan with other contents, and the digest of those. */
export function reseal(plan: Plan, changes: Partial<Plan>): Plan {
  const { planDigest: _old, ...contents } = { ...plan, ...changes };
  return { ...contents, planDigest: digest(digestLabels.plan, contents) };
}

export function admitPlan({ store }: World, plan: Plan) {
  return store.submit(operation(admit, { plan, requestedBy: 'tester' }));
}

export function startMain({ store }: World, idempotencyKey: string | null = null) {
  const input = { projectId, packageName, workflowId: 'main', idempotencyKey, requestedBy: 'tester' };
  return store.submit(operation(start, input));
}

/** Starts `main` and returns its run id. */
export async function startRun(world: World, idempotencyKey: string | null = null): Promise<string> {
  const outcome = await startMain(world, idempotencyKey);
  if (outcome.kind !== 'created') {
    throw new TypeError(`not created: ${JSON.stringify(outcome)}`);
  }
  return outcome.receipt.runId;
}

export async function rowsOf({ store }: World, runId: string): Promise<RunRows> {
  const rows = await store.read(read('wholeRun', { runId }));
  if (rows === null) {
    throw new TypeError(`run ${runId} is unknown`);
  }
  return rows;
}

export async function stepOf(world: World, runId: string, stepKey: string) {
  const { steps } = await rowsOf(world, runId);
  const step = [...steps.values()].find((entry) => entry.stepKey === stepKey);
  if (step === undefined) {
    throw new TypeError(`no step ${stepKey}`);
  }
  return step;
}

/** Step statuses by key, and the run's own under `run`. */
export async function statusesOf(world: World, runId: string): Promise<Record<string, string>> {
  const { run, steps } = await rowsOf(world, runId);
  return { run: run.status, ...Object.fromEntries([...steps.values()].map((step) => [step.stepKey, step.status])) };
}

/** The admission of an attempt while `busyOfWorkflow` other commands of its workflow run. */
export function attemptAdmission({ runId, stepRunId }: StepPlace, busyOfWorkflow = 0) {
  return operation(admitAttempt, { runId, stepRunId, handlerNames: [], busyOfWorkflow });
}

/** Admits an attempt of a ready step and crosses its start barrier. */
export async function beginStep(world: World, runId: string, stepKey: string) {
  const step = await stepOf(world, runId, stepKey);
  const place = { runId, stepRunId: step.id };
  const admitted = await world.store.submit(attemptAdmission(place));
  if (admitted.kind !== 'claimed' && admitted.kind !== 'existing') {
    throw new TypeError(`not admitted: ${JSON.stringify(admitted)}`);
  }
  const attempt = { ...place, attemptId: admitted.attemptId };
  const started = await world.store.submit(operation(startAttempt, attempt));
  if (started.kind !== 'started') {
    throw new TypeError(`not started: ${JSON.stringify(started)}`);
  }
  return attempt;
}

export const exitZero: Extract<AttemptFacts, { kind: 'exited' }> = {
  kind: 'exited',
  exitCode: 0,
  signal: null,
  outputBytes: 0,
  outputTruncated: false,
  finishedAtMs: null,
  durationMs: 20,
  note: null,
  isStopped: false,
};

export function endAttempt({ store }: World, attempt: Awaited<ReturnType<typeof beginStep>>, facts: AttemptFacts) {
  return store.submit(operation(complete, { ...attempt, facts }));
}

/** Runs one ready step to the end that `facts` say. */
export async function finishStep(world: World, runId: string, stepKey: string, facts: AttemptFacts = exitZero) {
  return endAttempt(world, await beginStep(world, runId, stepKey), facts);
}

export function cancelRun({ store }: World, runId: string) {
  return store.submit(operation(cancel, { runId, reason: 'user', requestedBy: 'tester' }));
}

export function advanceRun({ store }: World, runId: string) {
  return store.submit(operation(advance, { runId }));
}

export function moveLifecycle({ store }: World, to: 'active' | 'disabled' | 'uninstalled') {
  return store.submit(operation(changeLifecycle, { projectId, packageName, to, reason: null }));
}

export function quarantinePackage({ store }: World) {
  return store.submit(operation(quarantine, { projectId, packageName, reason: 'bad', requestedBy: 'tester' }));
}
