// Rows of installations, publications, lifecycle events and quarantines as records, and back. What carries a digest is
// checked against it.
import { canonicalJson } from '../../core/canonical-json.ts';
import { digest, digestLabels } from '../../core/digest.ts';
import { isEdgeError } from '../../core/errors.ts';
import {
  type GenerationTarget,
  type Installation,
  type LifecycleEvent,
  type Publication,
  type Quarantine,
  sealGeneration,
  verifyPublication,
} from '../../core/publication.ts';
import { damaged } from '../damaged.ts';
import { parseCanonical, toBytes, toBytesOrNull, toHex, toHexOrNull } from './codec.ts';

function encodeTarget(target: GenerationTarget) {
  return {
    projectId: target.projectId,
    packageName: target.packageName,
    installationId: target.installationId,
    generation: target.generation,
    lockDigest: toBytes(target.lockDigest),
    generationDigest: toBytes(target.generationDigest),
    materializedRevisionDigest: toBytes(target.materializedRevisionDigest),
  };
}

type TargetRow = ReturnType<typeof encodeTarget>;

function decodeTarget(row: TargetRow): GenerationTarget {
  return {
    projectId: row.projectId,
    packageName: row.packageName,
    installationId: row.installationId,
    lockDigest: toHex(row.lockDigest),
    generation: row.generation,
    generationDigest: toHex(row.generationDigest),
    materializedRevisionDigest: toHex(row.materializedRevisionDigest),
  };
}

/** The columns of an installation; `state` is the only one that ever changes. */
export function encodeInstallation({ target, signature, ...fields }: Installation) {
  return { ...encodeTarget(target), ...fields, signature: toBytesOrNull(signature) };
}

export type InstallationRow = ReturnType<typeof encodeInstallation>;

/** Throws `damaged` where the generation's digest is not that of the row. */
export function decodeInstallation(row: InstallationRow): Installation {
  const target = decodeTarget(row);
  const { generationDigest, ...contents } = target;
  if (sealGeneration(contents).generationDigest !== generationDigest) {
    throw damaged('PackageInstallations', `of ${row.packageName} ${row.generation} differs from its digest`);
  }
  const { version, state, publisherKeyId, installedAtMs } = row;
  return { target, version, state, publisherKeyId, signature: toHexOrNull(row.signature), installedAtMs };
}

/** The columns of one entry of the publication chain. */
export function encodePublication(publication: Publication) {
  return {
    ...encodeTarget(publication.target),
    version: publication.version,
    state: publication.state,
    previousPublicationDigest: toBytesOrNull(publication.previousPublicationDigest),
    lifecycleEventDigest: toBytesOrNull(publication.lifecycleEventDigest),
    workflows: canonicalJson(publication.workflows),
    publishedAtMs: publication.publishedAtMs,
    publicationDigest: toBytes(publication.publicationDigest),
  };
}

export type PublicationRow = ReturnType<typeof encodePublication>;

/** Throws `damaged` where the publication's digest is not that of the row. */
export function decodePublication(row: PublicationRow): Publication {
  const where = `AutomationPublications of ${row.packageName}`;
  try {
    return verifyPublication({
      schema: 'qinglong/automation-publication@v1',
      target: decodeTarget(row),
      state: row.state,
      version: row.version,
      previousPublicationDigest: toHexOrNull(row.previousPublicationDigest),
      lifecycleEventDigest: toHexOrNull(row.lifecycleEventDigest),
      workflows: parseCanonical(row.workflows, where),
      publishedAtMs: row.publishedAtMs,
      publicationDigest: toHex(row.publicationDigest),
    });
  } catch (cause) {
    throw isEdgeError(cause) ? damaged(where, `differs: ${cause.message}`, { cause }) : cause;
  }
}

/** The columns of a lifecycle event. */
export function encodeLifecycle(event: LifecycleEvent) {
  return {
    installationId: event.installationId,
    sequence: event.sequence,
    projectId: event.projectId,
    packageName: event.packageName,
    state: event.state,
    reason: event.reason,
    atMs: event.atMs,
    lifecycleEventDigest: toBytes(event.lifecycleEventDigest),
  };
}

export type LifecycleRow = ReturnType<typeof encodeLifecycle>;

/** Throws `damaged` where the event's digest is not that of the row. */
export function decodeLifecycle(row: LifecycleRow): LifecycleEvent {
  const { lifecycleEventDigest, ...columns } = row;
  const contents = { schema: 'qinglong/package-lifecycle-event@v1' as const, ...columns };
  const stored = toHex(lifecycleEventDigest);
  if (digest(digestLabels.lifecycleEvent, contents) !== stored) {
    throw damaged('PackageLifecycleEvents', `of ${row.packageName} differs from its digest`);
  }
  return { ...contents, lifecycleEventDigest: stored };
}

/** The columns of a quarantine. */
export function encodeQuarantine({ lockDigest, ...fields }: Quarantine) {
  return { ...fields, lockDigest: toBytes(lockDigest) };
}
