// Plans: the immutable statement of one intended workflow run. Owns building one from a revision and normalizing one
// that comes from outside. A plan is believed only as far as its digest and, at admission, the drift check go.
import { canonicalJson, utf8Bytes } from './canonical-json.ts';
import { digest, digestLabels } from './digest.ts';
import { EdgeError, type Mistake } from './errors.ts';
import { findCycle } from './graph.ts';
import { deriveStepRunId } from './ids.ts';
import { limits } from './limits.ts';
import type { GenerationTarget } from './publication.ts';
import { targetReaders } from './publication.ts';
import type { MaterializedRevision } from './revision.ts';
import {
  boolean,
  digestText,
  identifier,
  list,
  normalize,
  object,
  oneOf,
  portableId,
  type Read,
  resourceId,
  timeMs,
} from './shape.ts';

const planStepReader = object({
  stepRunId: portableId,
  stepKey: resourceId,
  taskId: resourceId,
  taskRef: identifier,
  taskSourceDigest: digestText,
  needs: list(resourceId, { min: 0, max: limits.stepsMax }),
  initialStatus: oneOf(['ready', 'pending']),
  required: boolean,
});

const planReader = object({
  schema: oneOf(['qinglong/workflow-plan@v1']),
  planId: portableId,
  runId: portableId,
  target: object({ ...targetReaders, publicationDigest: digestText }),
  workflowId: resourceId,
  workflowDefinitionDigest: digestText,
  steps: list(planStepReader, { min: 1, max: limits.stepsMax }),
  plannedAtMs: timeMs,
  planDigest: digestText,
});

export type PlanStep = Read<typeof planStepReader>;
export type Plan = Read<typeof planReader>;

/** Why a workflow cannot be planned: a value, not an error. */
export type PlanRefusal = { readonly kind: 'not-found' | 'not-allowed'; readonly reason: string };

/** Names the task of exactly one revision, so that a later generation can never leak into a run. */
export function taskRefOf(revisionDigest: string, taskId: string): string {
  return `${revisionDigest}:${taskId}`;
}

/** The plan of one run of a workflow. Refused: an unknown or disabled workflow, and one with a disabled task. */
export function buildPlan(options: {
  readonly planId: string;
  readonly runId: string;
  readonly target: GenerationTarget;
  readonly publicationDigest: string;
  readonly revision: MaterializedRevision;
  readonly workflowId: string;
  readonly nowMs: number;
}): { readonly plan: Plan } | { readonly refusal: PlanRefusal } {
  const { planId, runId, target, publicationDigest, revision, workflowId, nowMs } = options;
  const workflow = revision.workflows.find(({ id }) => id === workflowId);
  if (workflow === undefined) {
    const known = revision.workflows.map(({ id }) => id).join(', ');
    const reason = `package ${target.packageName} has no workflow ${workflowId}; it has: ${known || 'none'}`;
    return { refusal: { kind: 'not-found', reason } };
  }
  if (!workflow.enabled) {
    return { refusal: { kind: 'not-allowed', reason: `workflow ${workflowId} is disabled in its package` } };
  }
  const steps: PlanStep[] = [];
  for (const { stepKey, taskId, needs } of workflow.steps) {
    const task = revision.tasks.find(({ id }) => id === taskId);
    if (task === undefined || !task.enabled) {
      return {
        refusal: { kind: 'not-allowed', reason: `task ${taskId} of step ${stepKey} is disabled in its package` },
      };
    }
    steps.push({
      stepRunId: deriveStepRunId({ runId, stepKey }),
      stepKey,
      taskId,
      taskRef: taskRefOf(revision.digest, taskId),
      taskSourceDigest: task.sourceDigest,
      needs,
      initialStatus: needs.length === 0 ? 'ready' : 'pending',
      required: true,
    });
  }
  const contents = {
    schema: 'qinglong/workflow-plan@v1' as const,
    planId,
    runId,
    target: { ...target, publicationDigest },
    workflowId,
    workflowDefinitionDigest: workflow.definitionDigest,
    steps,
    plannedAtMs: nowMs,
  };
  return { plan: normalizePlan({ ...contents, planDigest: digest(digestLabels.plan, contents) }) };
}

/**
 * A plan in its one exact form. Throws `invalid` with every mistake: shape and bounds; steps sorted by key; needs
 * sorted, unique, existing and acyclic; `ready` exactly for steps without needs; ids and digest that match contents.
 */
export function normalizePlan(value: unknown): Plan {
  const plan = normalize(planReader, value, { what: 'plan', code: 'invalid' });
  const mistakes = [...stepMistakes(plan), ...wholeMistakes(plan)];
  if (mistakes.length > 0) {
    throw new EdgeError('invalid', `plan: ${mistakes[0]!.path} ${mistakes[0]!.rule}`, {
      hint: 'make the plan again with `workflow plan` and give it unchanged',
      mistakes,
    });
  }
  return plan;
}

function wholeMistakes(plan: Plan): readonly Mistake[] {
  const mistakes: Mistake[] = [];
  const cycle = findCycle(plan.steps.map(({ stepKey, needs }) => ({ key: stepKey, needs })));
  if (cycle !== null) {
    mistakes.push(mistake('steps', `form a cycle: ${cycle.join(' -> ')}`));
  }
  const bytes = utf8Bytes(canonicalJson(plan));
  if (bytes > limits.planBytesMax) {
    mistakes.push(mistake('steps', `make a plan of ${bytes} bytes; at most ${limits.planBytesMax} are allowed`));
  }
  const { planDigest, ...contents } = plan;
  if (planDigest !== digest(digestLabels.plan, contents)) {
    mistakes.push(mistake('planDigest', 'is not the digest of this plan'));
  }
  return mistakes;
}

function stepMistakes(plan: Plan): readonly Mistake[] {
  const mistakes: Mistake[] = [];
  const keys = new Set(plan.steps.map(({ stepKey }) => stepKey));
  plan.steps.forEach((step, index) => {
    const path = `steps[${index}]`;
    const check = (holds: boolean, field: string, rule: string) => {
      if (!holds) {
        mistakes.push(mistake(`${path}.${field}`, rule));
      }
    };
    check(index === 0 || plan.steps[index - 1]!.stepKey < step.stepKey, 'stepKey', 'must be unique and sorted by key');
    const stepRunId = deriveStepRunId({ runId: plan.runId, stepKey: step.stepKey });
    check(step.stepRunId === stepRunId, 'stepRunId', `must be ${stepRunId}, the id of this run and key`);
    const taskRef = taskRefOf(plan.target.materializedRevisionDigest, step.taskId);
    check(step.taskRef === taskRef, 'taskRef', `must be ${taskRef}`);
    check(
      step.initialStatus === (step.needs.length === 0 ? 'ready' : 'pending'),
      'initialStatus',
      'must be ready exactly for a step without needs',
    );
    check(step.required, 'required', 'must be true: optional steps do not exist yet');
    step.needs.forEach((need, at) => {
      check(at === 0 || step.needs[at - 1]! < need, `needs[${at}]`, 'must be unique and sorted');
      check(keys.has(need), `needs[${at}]`, `names ${need}, which is no step of this plan`);
    });
  });
  return mistakes;
}

function mistake(path: string, rule: string): Mistake {
  return { file: null, path, line: null, rule };
}
