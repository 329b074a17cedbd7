// Publications: the append-only digest chain that alone makes a generation's workflows startable; and installations,
// lifecycle events and quarantines, the other facts that the start guard reads.
import { digest, digestLabels } from './digest.ts';
import { assert } from './errors.ts';
import { limits } from './limits.ts';
import type { MaterializedRevision } from './revision.ts';
import {
  counter,
  digestText,
  identifier,
  list,
  normalize,
  nullable,
  object,
  oneOf,
  packageName,
  type Read,
  resourceId,
  timeMs,
} from './shape.ts';
import { hasTransition, type InstallationState, type LifecycleState, lifecycleTransitions } from './states.ts';

export const targetReaders = {
  projectId: identifier,
  packageName,
  installationId: identifier,
  lockDigest: digestText,
  generation: counter,
  generationDigest: digestText,
  materializedRevisionDigest: digestText,
} as const;

const targetReader = object(targetReaders);

/** One installed copy of exact bytes, in its generation. */
export type GenerationTarget = Read<typeof targetReader>;

export type Installation = {
  readonly target: GenerationTarget;
  readonly version: string;
  readonly state: InstallationState;
  /** Whose signature it has, and that signature (128 hex digits); both null for one that is unsigned. */
  readonly publisherKeyId: string | null;
  readonly signature: string | null;
  readonly installedAtMs: number;
};

export type LifecycleEvent = {
  readonly schema: 'qinglong/package-lifecycle-event@v1';
  readonly projectId: string;
  readonly packageName: string;
  readonly installationId: string;
  readonly sequence: number;
  readonly state: LifecycleState;
  readonly reason: string | null;
  readonly atMs: number;
  readonly lifecycleEventDigest: string;
};

export type Quarantine = {
  readonly projectId: string;
  readonly packageName: string;
  readonly installationId: string;
  readonly lockDigest: string;
  readonly reason: string;
  readonly atMs: number;
};

export const publicationStates = ['active', 'withdrawn', 'absent'] as const;

const publicationReader = object({
  schema: oneOf(['qinglong/automation-publication@v1']),
  target: targetReader,
  state: oneOf(publicationStates),
  version: counter,
  previousPublicationDigest: nullable(digestText),
  lifecycleEventDigest: nullable(digestText),
  workflows: list(object({ workflowId: resourceId, definitionDigest: digestText }), {
    min: 0,
    max: limits.workflowsMax,
  }),
  publishedAtMs: timeMs,
  publicationDigest: digestText,
});

export type Publication = Read<typeof publicationReader>;

/** A publication as it was read back. Throws `damaged` for a wrong shape or a digest that is not of its contents. */
export function verifyPublication(value: unknown): Publication {
  const publication = normalize(publicationReader, value, { what: 'publication', code: 'damaged' });
  const { publicationDigest, ...contents } = publication;
  const recomputed = digest(digestLabels.publication, contents);
  const matching = oneOf([recomputed]);
  normalize(matching, publicationDigest, { what: 'digest of a publication', code: 'damaged' });
  return publication;
}

export function sealGeneration(target: Omit<GenerationTarget, 'generationDigest'>): GenerationTarget {
  return { ...target, generationDigest: digest(digestLabels.generation, target) };
}

/**
 * The next entry of a package's chain. `active` lists the workflows of the revision; a generation without any is
 * `absent` from its first entry on. `withdrawn` follows `active` alone, and both bind the lifecycle event behind them.
 */
export function appendPublication(options: {
  readonly previous: Publication | null;
  readonly target: GenerationTarget;
  readonly state: Publication['state'];
  readonly lifecycleEventDigest: string | null;
  readonly revision: MaterializedRevision | null;
  readonly nowMs: number;
}): Publication {
  const { previous, target, state, lifecycleEventDigest, revision, nowMs } = options;
  assert(state !== 'withdrawn' || previous?.state === 'active', 'only an active publication is withdrawn');
  assert(state !== 'withdrawn' || lifecycleEventDigest !== null, 'a withdrawal is bound to its lifecycle event');
  assert(state !== 'active' || revision !== null, 'an active publication lists the workflows of its revision');
  const workflows = state === 'active' && revision !== null ? revision.workflows : [];
  const contents = {
    schema: 'qinglong/automation-publication@v1' as const,
    target,
    state: state === 'active' && workflows.length === 0 ? ('absent' as const) : state,
    version: (previous?.version ?? 0) + 1,
    previousPublicationDigest: previous?.publicationDigest ?? null,
    lifecycleEventDigest,
    workflows: workflows.map(({ id, definitionDigest }) => ({ workflowId: id, definitionDigest })),
    publishedAtMs: Math.max(nowMs, previous?.publishedAtMs ?? 0),
  };
  return { ...contents, publicationDigest: digest(digestLabels.publication, contents) };
}

/** The next lifecycle event of an installation; `previous` is null for the one that its install appends. */
export function appendLifecycle(options: {
  readonly previous: LifecycleEvent | null;
  readonly target: GenerationTarget;
  readonly state: LifecycleState;
  readonly reason: string | null;
  readonly nowMs: number;
}): LifecycleEvent {
  const { previous, target, state, reason, nowMs } = options;
  assert(
    previous === null ? state === 'active' : hasTransition(lifecycleTransitions, previous.state, state),
    'a lifecycle moves along its table',
  );
  const contents = {
    schema: 'qinglong/package-lifecycle-event@v1' as const,
    projectId: target.projectId,
    packageName: target.packageName,
    installationId: target.installationId,
    sequence: (previous?.sequence ?? 0) + 1,
    state,
    reason,
    atMs: Math.max(nowMs, previous?.atMs ?? 0),
  };
  return { ...contents, lifecycleEventDigest: digest(digestLabels.lifecycleEvent, contents) };
}
