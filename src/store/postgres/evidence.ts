// What was stored, looked at again: records with their digests, plans, revisions, packages. Everything comes as the
// jsonb that was written; what does not fit is `damaged` and never repaired.

import { canonicalJson } from '../../core/canonical-json.ts';
import { digest, digestLabels } from '../../core/digest.ts';
import { isEdgeError } from '../../core/errors.ts';
import type { RunEvent } from '../../core/events.ts';
import { derivePublisherKeyId } from '../../core/ids.ts';
import { normalizePlan, type Plan } from '../../core/plan.ts';
import {
  type Installation,
  type LifecycleEvent,
  type Publication,
  sealGeneration,
  verifyPublication,
} from '../../core/publication.ts';
import type { Publisher } from '../../core/publisher.ts';
import { isIntact } from '../../core/record-seal.ts';
import type { Run, RunAttempt, StepRun } from '../../core/records.ts';
import {
  computeLockDigest,
  type MaterializedRevision,
  normalizeRevision,
  type PackageFile,
} from '../../core/revision.ts';
import { damaged } from '../damaged.ts';

/** What a shape check of core says of something stored is damage; `where` begins the sentence. */
export function asStored<T>(where: string, check: () => T, runId?: string): T {
  const options = runId === undefined ? {} : { runId };
  try {
    return check();
  } catch (cause) {
    throw isEdgeError(cause) ? damaged(where, `differs: ${cause.message}`, { ...options, cause }) : cause;
  }
}

function readRecord<T extends Run | StepRun | RunAttempt>(value: unknown, where: string, runId: string): T {
  const record = value as T;
  // A record in which a whole member is missing is no record; its digest says so too, or fails to be computed at all.
  let isSound = false;
  try {
    isSound = isIntact(record);
  } catch {}
  if (!isSound) {
    throw damaged(where, 'differs from its digest', { runId });
  }
  return record;
}

export function readRun(value: unknown, runId: string): Run {
  return readRecord<Run>(value, 'runs', runId);
}

export function readStep(value: unknown, runId: string): StepRun {
  return readRecord<StepRun>(value, `step_runs of ${(value as StepRun).stepKey}`, runId);
}

export function readAttempt(value: unknown, runId: string): RunAttempt {
  return readRecord<RunAttempt>(value, `run_attempts of ${(value as RunAttempt).number}`, runId);
}

/** The events `first` to `last`; the run's history digest vouches for the contents. */
export function readEvents(values: unknown, place: { runId: string; first: number; last: number }): RunEvent[] {
  const { runId, first, last } = place;
  const events = (values ?? []) as RunEvent[];
  const missing = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index).find(
    (sequence, index) => events[index]?.sequence !== sequence,
  );
  if (missing !== undefined) {
    throw damaged('run_events', `lacks event ${missing}`, { runId });
  }
  return events;
}

export function readPlan(value: unknown, runId: string): Plan {
  const where = 'plugin_package_workflow_admissions';
  if (value === null) {
    throw damaged(where, 'has no row of this run', { runId });
  }
  const plan = asStored(where, () => normalizePlan(value), runId);
  if (plan.runId !== runId) {
    throw damaged(where, 'has the plan of another run', { runId });
  }
  return plan;
}

export function readRevision(value: unknown, revisionDigest: string): MaterializedRevision {
  const where = `materialized_revisions ${revisionDigest.slice(0, 12)}`;
  if (value === null) {
    throw damaged(where, 'is missing');
  }
  const revision = asStored(where, () => normalizeRevision(value, 'damaged'));
  if (revision.digest !== revisionDigest) {
    throw damaged(where, 'is another revision');
  }
  return revision;
}

export function readInstallation(value: unknown): Installation {
  const installation = value as Installation;
  const { generationDigest, ...contents } = installation.target;
  if (sealGeneration(contents).generationDigest !== generationDigest) {
    throw damaged('package_installations', `of ${contents.packageName} ${contents.generation} differs from its digest`);
  }
  return installation;
}

export function readPublication(value: unknown): Publication {
  return asStored('automation_publications', () => verifyPublication(value));
}

export function readLifecycle(value: unknown): LifecycleEvent {
  const event = value as LifecycleEvent;
  const { lifecycleEventDigest, ...contents } = event;
  if (digest(digestLabels.lifecycleEvent, contents) !== lifecycleEventDigest) {
    throw damaged('package_lifecycle_events', `of ${event.packageName} differs from its digest`);
  }
  return event;
}

export function readPublisher(value: unknown): Publisher {
  const publisher = value as Publisher;
  if (derivePublisherKeyId(publisher.publicKey) !== publisher.keyId) {
    throw damaged('publishers', `has another key under ${publisher.keyId}`);
  }
  return publisher;
}

export function readPackageFiles(value: unknown, lockDigest: string): readonly PackageFile[] {
  const where = `package_files ${lockDigest.slice(0, 12)}`;
  const files = value as readonly PackageFile[];
  let isOfDigest = false;
  try {
    isOfDigest = Array.isArray(files) && computeLockDigest(files) === lockDigest;
  } catch {}
  if (!isOfDigest) {
    throw damaged(where, 'is not the list of that digest');
  }
  return files;
}

/** Compared as structures: jsonb keeps no order of members. */
export function isSame(left: unknown, right: unknown): boolean {
  return canonicalJson(left) === canonicalJson(right);
}
