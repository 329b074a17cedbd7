// Lexical classes of names and ids, and the ids that are functions of a primary key.
import { canonicalJson, orderedJson } from './canonical-json.ts';
import { digestLabels, digestOfText } from './digest.ts';
import { limits } from './limits.ts';

const identifierPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]*$/;
const resourceIdPattern = /^[a-z][a-z0-9-]*$/;
const packageNamePattern = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;
const digestPattern = /^[0-9a-f]{64}$/;

// The patterns admit ASCII alone, so that length in code units is length in bytes.
export function isIdentifier(value: string): boolean {
  return value.length <= limits.identifierBytesMax && identifierPattern.test(value);
}

export function isPortableId(value: string): boolean {
  return value.length <= limits.portableIdBytesMax && identifierPattern.test(value);
}

export function isResourceId(value: string): boolean {
  return value.length <= limits.resourceIdBytesMax && resourceIdPattern.test(value);
}

export function isPackageName(value: string): boolean {
  return value.length <= limits.packageNameBytesMax && packageNamePattern.test(value);
}

export function isDigest(value: string): boolean {
  return digestPattern.test(value);
}

/**
 * A prefix of two letters and 32 hex digits of a digest: 35 bytes, which fit a portable id. The members of `key` are
 * written in canonical order.
 */
function deriveId(prefix: string, label: string, key: object): string {
  return `${prefix}_${digestOfText(label, orderedJson(key) ?? canonicalJson(key)).slice(0, 32)}`;
}

export function deriveEventId(key: { runId: string; sequence: number; type: string }): string {
  const { runId, sequence, type } = key;
  return deriveId('ev', digestLabels.eventId, { runId, sequence, type });
}

/** `version` and `status` are those that the step run has after the mutation. */
export function deriveMutationId(key: { planId: string; stepRunId: string; version: number; status: string }): string {
  const { planId, status, stepRunId, version } = key;
  return deriveId('mu', digestLabels.mutationId, { planId, status, stepRunId, version });
}

/** `epoch` is the step run's version while it is ready: at most one attempt is admitted in it. */
export function deriveAttemptId(key: { runId: string; stepRunId: string; epoch: number }): string {
  const { epoch, runId, stepRunId } = key;
  return deriveId('at', digestLabels.attemptId, { epoch, runId, stepRunId });
}

/** A step run is one step of one run, so its id needs no index of its own: it is unique where the run id is. */
export function deriveStepRunId(key: { runId: string; stepKey: string }): string {
  const { runId, stepKey } = key;
  return deriveId('st', digestLabels.stepRunId, { runId, stepKey });
}

/** `publicKey` is 64 hex digits. The id says which key is meant, and nobody can choose it. */
export function derivePublisherKeyId(publicKey: string): string {
  return deriveId('pk', digestLabels.publisherKeyId, { publicKey });
}
