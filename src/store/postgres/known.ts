// What a store keeps of immutable evidence that it has verified: plans by their runs, revisions by their digests. It
// spares sending and reading them again. Owns its own bounds; never holds what can change.
import type { Plan } from '../../core/plan.ts';
import type { MaterializedRevision } from '../../core/revision.ts';

// Beside the process that it serves a server of many MiB: these are a few.
const plansMax = 512;
const revisionsMax = 32;

export type Known = {
  readonly plans: { get(runId: string): Plan | null };
  readonly revisions: { get(revisionDigest: string): MaterializedRevision | null };
  keepPlan(plan: Plan): Plan;
  keepRevision(revision: MaterializedRevision): MaterializedRevision;
  /** The revision that a package had when it was last looked at. */
  revisionOf(projectId: string, packageName: string): MaterializedRevision | null;
  keepRevisionOf(projectId: string, packageName: string, revision: MaterializedRevision): void;
};

export function createKnown(): Known {
  const plans = createRecent<Plan>(plansMax);
  const revisions = createRecent<MaterializedRevision>(revisionsMax);
  const digests = createRecent<string>(revisionsMax);
  const keepRevision = (revision: MaterializedRevision) => revisions.put(revision.digest, revision);
  return {
    plans,
    revisions,
    keepPlan: (plan) => plans.put(plan.runId, plan),
    keepRevision,
    revisionOf(projectId, packageName) {
      const digest = digests.get(`${projectId} ${packageName}`);
      return digest === null ? null : revisions.get(digest);
    },
    keepRevisionOf(projectId, packageName, revision) {
      digests.put(`${projectId} ${packageName}`, keepRevision(revision).digest);
    },
  };
}

/** Least recently used goes first. */
function createRecent<T>(entriesMax: number) {
  const entries = new Map<string, T>();
  const put = (key: string, value: T): T => {
    entries.delete(key);
    entries.set(key, value);
    if (entries.size > entriesMax) {
      entries.delete(entries.keys().next().value!);
    }
    return value;
  };
  return {
    get(key: string): T | null {
      const value = entries.get(key);
      return value === undefined ? null : put(key, value);
    },
    put,
  };
}
