// Reads of packages: the heads and what they name, the start guard's facts, revisions. Revisions are immutable and
// large, so a verified one is kept by its digest.
import type { DatabaseSync } from 'node:sqlite';
import { isEdgeError } from '../../core/errors.ts';
import { type MaterializedRevision, normalizeRevision } from '../../core/revision.ts';
import type { PackageHead, Reads, StepContext } from '../../protocol/reads.ts';
import { damaged } from '../damaged.ts';
import { createCache } from './cache.ts';
import { parseCanonical, toBytes } from './codec.ts';
import type { FoundStep } from './reads-run.ts';
import { createSettingReads } from './reads-setting.ts';
import {
  decodeInstallation,
  decodeLifecycle,
  decodePublication,
  type InstallationRow,
  type LifecycleRow,
  type PublicationRow,
} from './rows-package.ts';
import type { RunMemory } from './run-memory.ts';
import { statement } from './statement.ts';

const selectHeadSql = `SELECT i.installationId, i.projectId, i.packageName, i.generation, i.lockDigest,
    i.generationDigest, i.materializedRevisionDigest, i.version, i.state, i.publisherKeyId, i.signature,
    i.installedAtMs
  FROM PackageInstallationHeads AS h
  JOIN PackageInstallations AS i ON i.installationId = h.installationId
  WHERE h.projectId = +:projectId AND h.packageName = +:packageName`;
const selectPlaceSql = 'SELECT projectId, packageName FROM RunIdentities WHERE runId = :runId';
const selectNamesSql = `SELECT packageName FROM PackageInstallationHeads
  WHERE projectId = :projectId ORDER BY packageName`;
const selectInstallationsSql = `SELECT installationId, projectId, packageName, generation, lockDigest, generationDigest,
    materializedRevisionDigest, version, state, publisherKeyId, signature, installedAtMs
  FROM PackageInstallations WHERE projectId = :projectId ORDER BY packageName, generation`;
// By the head's version and digest: a chain whose head names another publication has no head.
const selectPublicationSql = `SELECT p.projectId, p.packageName, p.version, p.state, p.installationId, p.generation,
    p.lockDigest, p.generationDigest, p.materializedRevisionDigest, p.previousPublicationDigest,
    p.lifecycleEventDigest, p.workflows, p.publishedAtMs, p.publicationDigest
  FROM AutomationPublicationHeads AS h
  JOIN AutomationPublications AS p
    ON p.projectId = h.projectId AND p.packageName = h.packageName AND p.version = h.version
  WHERE h.projectId = +:projectId AND h.packageName = +:packageName AND p.publicationDigest = h.publicationDigest`;
const selectLifecycleSql = `SELECT installationId, sequence, projectId, packageName, state, reason, atMs,
    lifecycleEventDigest
  FROM PackageLifecycleEvents WHERE installationId = :installationId ORDER BY sequence DESC LIMIT 1`;
const selectRevisionSql = 'SELECT revision FROM MaterializedRevisions WHERE revisionDigest = :revisionDigest';
// What forbids an installation to start anything, whoever asks: both at once.
const condemnationSql = `SELECT
    (
      SELECT reason FROM PackageQuarantines
      WHERE projectId = :projectId AND packageName = :packageName AND lockDigest = :lockDigest
        AND installationId = :installationId
    ) AS quarantineReason,
    EXISTS (
      SELECT 1 FROM PackageInstallations AS i
      CROSS JOIN Publishers AS p ON p.keyId = i.publisherKeyId
      WHERE i.installationId = +:installationId AND p.revokedAtMs IS NOT NULL
    ) AS isPublisherRevoked`;
const lockCondemnationSql = `SELECT
    (
      SELECT reason FROM PackageQuarantines
      WHERE projectId = :projectId AND packageName = :packageName AND lockDigest = :lockDigest
      ORDER BY installationId LIMIT 1
    ) AS quarantineReason,
    r.keyId, r.revokeReason
  FROM (SELECT 1)
  LEFT JOIN (
    SELECT p.keyId, p.revokeReason FROM PackageInstallations AS i
    CROSS JOIN Publishers AS p ON p.keyId = i.publisherKeyId
    WHERE i.projectId = :projectId AND i.packageName = :packageName AND i.lockDigest = :lockDigest
      AND p.revokedAtMs IS NOT NULL
    ORDER BY i.generation LIMIT 1
  ) AS r ON true`;

type PackagePlace = Reads['package']['args'];
type LockPlace = { projectId: string; packageName: string; lockDigest: Uint8Array };
type InstallationPlace = LockPlace & { installationId: string };
type ById = { installationId: string };
type LockCondemnationRow = { quarantineReason: string | null; keyId: string | null; revokeReason: string | null };
type CondemnationRow = { quarantineReason: string | null; isPublisherRevoked: number };
type Condemnation = Pick<PackageHead, 'isQuarantined' | 'quarantineReason' | 'isPublisherRevoked'>;

export type PackageReads = Pick<
  Reads,
  'package' | 'packages' | 'packageOfRun' | 'settings' | 'startFacts' | 'lockCondemnation' | 'installations'
>;
type PackageReader = {
  readonly [N in keyof PackageReads]: (args: PackageReads[N]['args']) => PackageReads[N]['rows'];
} & {
  readonly completeStep: (found: FoundStep) => StepContext;
};

/** The reads of packages on one connection, and the last part of the read of a step. They throw `damaged`. */
export function createPackageReads(db: DatabaseSync, memory: RunMemory | null): PackageReader {
  const selectPlace = statement<{ runId: string }, PackagePlace>(db, selectPlaceSql);
  const selectNames = statement<{ projectId: string }, { packageName: string }>(db, selectNamesSql);
  const selectInstallations = statement<{ projectId: string }, InstallationRow>(db, selectInstallationsSql);
  const selectLock = statement<LockPlace, LockCondemnationRow>(db, lockCondemnationSql);
  const selectCondemnation = statement<InstallationPlace, CondemnationRow>(db, condemnationSql);
  const findRevision = createRevisionSource(db);
  const settingReads = createSettingReads(db);
  const findCondemnation = (target: Reads['startFacts']['args']): Condemnation => {
    const { projectId, packageName, installationId, lockDigest } = target;
    const row = selectCondemnation.get({ projectId, packageName, installationId, lockDigest: toBytes(lockDigest) });
    const quarantineReason = row?.quarantineReason ?? null;
    const isPublisherRevoked = row?.isPublisherRevoked === 1;
    return { isQuarantined: quarantineReason !== null, quarantineReason, isPublisherRevoked };
  };
  const condemnationOf = (target: Reads['startFacts']['args']): Condemnation => {
    const { projectId, packageName, installationId, lockDigest } = target;
    const key = `condemnation ${projectId} ${packageName} ${installationId} ${lockDigest}`;
    return remember(memory, key, () => findCondemnation(target));
  };
  const readHead = createHeadReader(db, { condemnationOf, findRevision });
  const findHead = (place: PackagePlace): PackageHead | null =>
    remember(memory, `head ${place.projectId} ${place.packageName}`, () => readHead(place));
  return {
    package: findHead,
    packageOfRun(args) {
      const place = selectPlace.get(args);
      return place === null ? null : findHead(place);
    },
    settings: settingReads.settings,
    packages: ({ projectId }) =>
      selectNames.all({ projectId }).flatMap(({ packageName }) => findHead({ projectId, packageName }) ?? []),
    startFacts(target) {
      const { projectId, packageName } = target;
      return { head: findHead({ projectId, packageName }), ...condemnationOf(target) };
    },
    lockCondemnation({ projectId, packageName, lockDigest }) {
      const row = selectLock.get({ projectId, packageName, lockDigest: toBytes(lockDigest) });
      const { quarantineReason = null, keyId = null, revokeReason = null } = row ?? {};
      const revokedKey = keyId === null ? null : { keyId, reason: revokeReason ?? '' };
      return { isQuarantined: quarantineReason !== null, quarantineReason, revokedKey };
    },
    installations: ({ projectId }) => selectInstallations.all({ projectId }).map(decodeInstallation),
    completeStep(found) {
      const { run, plan, number, rows, step, attempts, lastAttemptNumber } = found;
      const planStep = plan.steps[number - 1]!;
      const revision = findRevision(plan.target.materializedRevisionDigest);
      const task = revision.tasks.find(({ id }) => id === planStep.taskId);
      if (task === undefined || task.sourceDigest !== planStep.taskSourceDigest) {
        throw damaged('MaterializedRevisions', `has no task ${planStep.taskId} as planned`, { runId: run.id });
      }
      const workflow = revision.workflows.find(({ id }) => id === plan.workflowId);
      if (workflow === undefined || workflow.definitionDigest !== plan.workflowDefinitionDigest) {
        throw damaged('MaterializedRevisions', `has no workflow ${plan.workflowId} as planned`, { runId: run.id });
      }
      return {
        rows,
        step,
        attempts,
        lastAttemptNumber,
        planStep,
        plan,
        task,
        workflow,
        settings: settingReads.ofTask(plan.target, task),
        ...condemnationOf(plan.target),
      };
    },
  };
}

function remember<T>(memory: RunMemory | null, key: string, find: () => T): T {
  return memory === null ? find() : memory.packageFact(key, find);
}

type HeadParts = {
  readonly condemnationOf: (target: Reads['startFacts']['args']) => Condemnation;
  readonly findRevision: (digest: string) => MaterializedRevision;
};

function createHeadReader(db: DatabaseSync, parts: HeadParts): (place: PackagePlace) => PackageHead | null {
  const selectHead = statement<PackagePlace, InstallationRow>(db, selectHeadSql);
  const selectPublication = statement<PackagePlace, PublicationRow>(db, selectPublicationSql);
  const selectLifecycle = statement<ById, LifecycleRow>(db, selectLifecycleSql);
  return ({ projectId, packageName }) => {
    const row = selectHead.get({ projectId, packageName });
    if (row === null) {
      return null;
    }
    const installation = decodeInstallation(row);
    const { target } = installation;
    const publication = selectPublication.get({ projectId, packageName });
    const lifecycle = selectLifecycle.get({ installationId: target.installationId });
    if (publication === null || lifecycle === null || target.packageName !== packageName) {
      throw damaged(`package ${packageName}`, 'lacks its publication or its lifecycle');
    }
    return {
      installation,
      publication: decodePublication(publication),
      lifecycle: decodeLifecycle(lifecycle),
      revision: parts.findRevision(target.materializedRevisionDigest),
      ...parts.condemnationOf(target),
    };
  };
}

function createRevisionSource(db: DatabaseSync): (revisionDigest: string) => MaterializedRevision {
  const selectRevision = statement<{ revisionDigest: Uint8Array }, { revision: string }>(db, selectRevisionSql);
  const cache = createCache<MaterializedRevision>();
  return (revisionDigest) => {
    const known = cache.get(revisionDigest);
    if (known !== null) {
      return known;
    }
    const where = `MaterializedRevisions ${revisionDigest.slice(0, 12)}`;
    const row = selectRevision.get({ revisionDigest: toBytes(revisionDigest) });
    if (row === null) {
      throw damaged(where, 'is missing');
    }
    const revision = verifyRevision(row.revision, where);
    if (revision.digest !== revisionDigest) {
      throw damaged(where, 'is another revision');
    }
    cache.put(revisionDigest, revision, row.revision.length);
    return revision;
  };
}

function verifyRevision(text: string, where: string): MaterializedRevision {
  try {
    return normalizeRevision(parseCanonical(text, where), 'damaged');
  } catch (cause) {
    throw isEdgeError(cause) ? damaged(where, `differs: ${cause.message}`, { cause }) : cause;
  }
}
