// The start guard and the drift check: whether a plan may become a run now. The store delivers facts; this decides.
import type { Plan, PlanStep } from './plan.ts';
import type { GenerationTarget, Installation, LifecycleEvent, Publication } from './publication.ts';
import type { MaterializedRevision } from './revision.ts';

export type GuardFacts = {
  readonly head: {
    readonly installation: Installation;
    readonly publication: Publication;
    readonly lifecycle: LifecycleEvent;
  } | null;
  /** A quarantine on exactly this project, package, installation and lock. */
  readonly isQuarantined: boolean;
  readonly quarantineReason: string | null;
  readonly isPublisherRevoked: boolean;
};

export type StartRefusal = { readonly code: string; readonly reason: string };

/** Null if a run of this target may start; else the first guard that forbids it. */
export function decideStart(
  target: GenerationTarget & { readonly publicationDigest: string },
  facts: GuardFacts,
): StartRefusal | null {
  const { head } = facts;
  const name = target.packageName;
  if (facts.isQuarantined) {
    const what = `generation ${target.generation} of package ${name} is quarantined`;
    return { code: 'quarantined', reason: quarantined(what, facts) };
  }
  if (facts.isPublisherRevoked) {
    const reason = `the key that signed generation ${target.generation} of package ${name} was revoked`;
    return { code: 'publisher_revoked', reason };
  }
  if (head === null) {
    return { code: 'not_installed', reason: `package ${name} is not installed` };
  }
  if (head.lifecycle.state !== 'active') {
    return { code: `package_${head.lifecycle.state}`, reason: `package ${name} is ${head.lifecycle.state}` };
  }
  const { installation, publication } = head;
  if (
    installation.target.installationId !== target.installationId ||
    installation.target.lockDigest !== target.lockDigest
  ) {
    const present = installation.target.generation;
    const reason = `package ${name} has generation ${present} now; the plan is for ${target.generation}`;
    return { code: 'installation_moved', reason };
  }
  if (installation.state !== 'active') {
    return { code: 'installation_inactive', reason: `the installation of package ${name} is ${installation.state}` };
  }
  if (publication.publicationDigest !== target.publicationDigest) {
    return { code: 'publication_moved', reason: `package ${name} was published anew since the plan was made` };
  }
  if (publication.state !== 'active') {
    return {
      code: `publication_${publication.state}`,
      reason: `the publication of package ${name} is ${publication.state}`,
    };
  }
  return null;
}

/** With the reason that was given for it. */
export function quarantined(what: string, { quarantineReason }: Pick<GuardFacts, 'quarantineReason'>): string {
  return quarantineReason === null ? what : `${what} (${quarantineReason})`;
}

/** Null if the plan says exactly what the revision and the publication say; else the first difference. */
export function findDrift(plan: Plan, revision: MaterializedRevision, publication: Publication): string | null {
  if (plan.target.materializedRevisionDigest !== revision.digest) {
    return 'the plan names another materialized revision';
  }
  const workflow = revision.workflows.find(({ id }) => id === plan.workflowId);
  const published = publication.workflows.find(({ workflowId }) => workflowId === plan.workflowId);
  if (workflow === undefined || published === undefined) {
    return `workflow ${plan.workflowId} is not published`;
  }
  if (!workflow.enabled) {
    return `workflow ${plan.workflowId} is disabled`;
  }
  const digests = [workflow.definitionDigest, published.definitionDigest];
  if (digests.some((definitionDigest) => definitionDigest !== plan.workflowDefinitionDigest)) {
    return `the definition of workflow ${plan.workflowId} is another`;
  }
  if (workflow.steps.length !== plan.steps.length) {
    return `workflow ${plan.workflowId} has ${workflow.steps.length} steps, the plan ${plan.steps.length}`;
  }
  return (
    workflow.steps
      .map((step, index) => findStepDrift(plan.steps[index]!, step, revision))
      .find((drift) => drift !== null) ?? null
  );
}

function findStepDrift(
  planned: PlanStep,
  published: MaterializedRevision['workflows'][number]['steps'][number],
  revision: MaterializedRevision,
): string | null {
  const { stepKey } = published;
  if (planned.stepKey !== stepKey || planned.taskId !== published.taskId) {
    return `step ${stepKey} is another or has another task`;
  }
  if (planned.needs.join(' ') !== published.needs.join(' ')) {
    return `step ${stepKey} has other needs`;
  }
  const task = revision.tasks.find(({ id }) => id === published.taskId);
  if (task === undefined || !task.enabled) {
    return `task ${published.taskId} of step ${stepKey} is missing or disabled`;
  }
  return task.sourceDigest === planned.taskSourceDigest
    ? null
    : `task ${task.id} of step ${stepKey} has another source`;
}
