// Plans and runs that the tests of core share: small, valid, and the same on every machine.
import { type AdmissionRequest, buildAdmission } from '../../src/core/admission.ts';
import { digest, digestLabels } from '../../src/core/digest.ts';
import { assert, type EdgeError, isEdgeError } from '../../src/core/errors.ts';
import type { EventDraft, RunEvent } from '../../src/core/events.ts';
import { stampEvents } from '../../src/core/events.ts';
import { evolve } from '../../src/core/evolve.ts';
import { deriveAttemptId, deriveStepRunId } from '../../src/core/ids.ts';
import { readManifest } from '../../src/core/manifest.ts';
import { type Plan, type PlanStep, taskRefOf } from '../../src/core/plan.ts';
import { sealRun, sealStepRun } from '../../src/core/record-seal.ts';
import type { Run, RunRows, StepRun } from '../../src/core/records.ts';
import { type MaterializedRevision, materialize } from '../../src/core/revision.ts';

/** Step keys and what each needs, in any order. */
export type Shape = Readonly<Record<string, readonly string[]>>;

export const admittedAtMs = 1_785_000_000_000;
const hex = (digit: string) => digit.repeat(64);

export const sampleTarget: Plan['target'] = {
  projectId: 'default',
  packageName: 'net-watch',
  installationId: 'inst-1',
  lockDigest: hex('1'),
  generation: 3,
  generationDigest: hex('2'),
  materializedRevisionDigest: hex('3'),
  publicationDigest: hex('4'),
};

export const sampleRequest: AdmissionRequest = {
  requestedBy: 'operator:root',
  idempotencyKey: 'key-1',
  triggerId: null,
  scheduledForMs: null,
  retryOfRunId: null,
  deadline: { startMs: admittedAtMs, startUptimeMs: 5_000, bootId: 'boot-1', lengthMs: 60_000 },
};

export function sealPlan(contents: Omit<Plan, 'planDigest'>): Plan {
  return { ...contents, planDigest: digest(digestLabels.plan, contents) };
}

/** A plan that `normalizePlan` accepts as it is, if the shape is a sound one. */
export function planOf(shape: Shape, runId = 'run-1'): Plan {
  const steps = Object.keys(shape)
    .sort()
    .map((stepKey): PlanStep => {
      const needs = [...shape[stepKey]!].sort();
      return {
        stepRunId: deriveStepRunId({ runId, stepKey }),
        stepKey,
        taskId: 'probe',
        taskRef: taskRefOf(sampleTarget.materializedRevisionDigest, 'probe'),
        taskSourceDigest: hex('5'),
        needs,
        initialStatus: needs.length === 0 ? 'ready' : 'pending',
        required: true,
      };
    });
  return sealPlan({
    schema: 'qinglong/workflow-plan@v1',
    planId: 'plan-1',
    runId,
    target: sampleTarget,
    workflowId: 'watch',
    workflowDefinitionDigest: hex('6'),
    steps,
    plannedAtMs: admittedAtMs - 1_000,
  });
}

/** A chain of steps `s000`, `s001`, …, each needing the one before it. */
export function chainOf(length: number): Shape {
  const key = (index: number) => `s${`${index}`.padStart(3, '0')}`;
  return Object.fromEntries(Array.from({ length }, (_, index) => [key(index), index === 0 ? [] : [key(index - 1)]]));
}

/** A run in the making: its events so far and the rows that `evolve` made of them. */
export type Story = { readonly plan: Plan; readonly events: RunEvent[]; rows: RunRows; wallMs: number };

export function admitStory(plan: Plan, request = sampleRequest): Story {
  const bundle = buildAdmission(plan, request, admittedAtMs);
  return { plan, events: [...bundle.events], rows: bundle.rows, wallMs: admittedAtMs };
}

/** Appends drafts as a store does: numbered on from the run's version, stamped with one time. */
export function append(story: Story, ...drafts: readonly EventDraft[]): void {
  for (const event of stampEvents(story.rows.run, drafts, story.wallMs)) {
    story.rows = evolve(story.rows, event);
    story.events.push(event);
  }
}

export function stepOf(story: Story, stepKey: string): StepRun {
  return story.rows.steps.get(deriveStepRunId({ runId: story.plan.runId, stepKey }))!;
}

/** A record with some fields changed, and the digest of what it then says. */
export function changeRun(run: Run, change: Partial<Run>): Run {
  const { digest: _, ...contents } = { ...run, ...change };
  return sealRun(contents);
}

export function changeStep(step: StepRun, change: Partial<StepRun>): StepRun {
  const { digest: _, ...contents } = { ...step, ...change };
  return sealStepRun(contents);
}

/** The two ids that an event about the attempt of a step's present epoch carries. */
export function attemptHead(step: StepRun): { stepRunId: string; attemptId: string } {
  return {
    stepRunId: step.id,
    attemptId: deriveAttemptId({ runId: step.runId, stepRunId: step.id, epoch: step.version }),
  };
}

/** A revision with workflow `watch` of this shape, a disabled workflow `dormant`, and `broken` with a disabled task. */
export function revisionOf(shape: Shape): MaterializedRevision {
  const steps = Object.fromEntries(Object.entries(shape).map(([key, needs]) => [key, { task: 'probe', needs }]));
  const reading = readManifest({
    schema: 'qinglong/package@v1',
    name: 'net-watch',
    version: '1.0.0',
    tasks: { probe: { run: ['./probe.sh'] }, off: { run: ['./off.sh'], enabled: false } },
    workflows: {
      watch: { steps },
      dormant: { enabled: false, steps: { only: { task: 'probe' } } },
      broken: { steps: { only: { task: 'off' } } },
    },
  });
  assert('manifest' in reading, 'the sample manifest is sound');
  return materialize(reading.manifest, hex('1'));
}

/** The one error that something must throw, as what matters of it. */
export function edgeErrorOf(action: () => unknown): Pick<EdgeError, 'code' | 'message' | 'hint' | 'mistakes'> {
  try {
    action();
  } catch (error) {
    if (isEdgeError(error)) {
      return error;
    }
    throw error;
  }
  return { code: 'internal', message: 'nothing was thrown', hint: '', mistakes: [] };
}
