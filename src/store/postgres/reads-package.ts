// Reads of packages: the heads and what they name, the start guard's facts, publishers, settings.
import type { PackageSetting } from '../../core/package-setting.ts';
import type { MaterializedRevision } from '../../core/revision.ts';
import type { PackageHead, Reads } from '../../protocol/reads.ts';
import { damaged } from '../damaged.ts';
import {
  readInstallation,
  readLifecycle,
  readPackageFiles,
  readPublication,
  readPublisher,
  readRevision,
} from './evidence.ts';
import type { Known } from './known.ts';
import type { ReadPart } from './query.ts';

type PartOf<N extends keyof Reads> = (args: Reads[N]['args']) => ReadPart<Reads[N]['rows']>;

const packageSql = 'SELECT ql3.package_snapshot(:projectId, :packageName, :known)';
const startFactsSql = `SELECT json_build_object(
    'head', ql3.package_snapshot(:projectId, :packageName, :known),
    'condemnation', ql3.condemnation(:projectId, :packageName, :installationId, :lockDigest)
  )`;
const packagesSql = `SELECT json_agg(
    ql3.package_snapshot(h.project_id, h.package_name, '') ORDER BY h.package_name
  ) FROM ql3.package_installation_heads AS h WHERE h.project_id = :projectId`;
const packageOfRunSql = `SELECT ql3.package_snapshot(r.project_id, r.package_name, '')
  FROM ql3.runs AS r WHERE r.run_id = :runId`;
const settingsSql = `SELECT json_agg(s.record ORDER BY s.name) FROM ql3.package_settings AS s
  WHERE s.project_id = :projectId AND s.package_name = :packageName`;
const lockCondemnationSql = `SELECT json_build_object(
    'quarantineReason',
    (
      SELECT q.record ->> 'reason' FROM ql3.package_quarantines AS q
      WHERE q.project_id = :projectId AND q.package_name = :packageName AND q.lock_digest = decode(:lockDigest, 'hex')
      ORDER BY q.installation_id LIMIT 1
    ),
    'publisher',
    (
      SELECT p.record FROM ql3.package_installations AS i
      JOIN ql3.publishers AS p ON p.key_id = i.publisher_key_id
      WHERE i.project_id = :projectId AND i.package_name = :packageName
        AND i.lock_digest = decode(:lockDigest, 'hex') AND p.revoked_at_ms IS NOT NULL
      ORDER BY i.generation LIMIT 1
    )
  )`;
const installationsSql = `SELECT json_agg(i.record ORDER BY i.package_name, i.generation)
  FROM ql3.package_installations AS i WHERE i.project_id = :projectId`;
const packageFilesSql = "SELECT f.files FROM ql3.package_files AS f WHERE f.lock_digest = decode(:lockDigest, 'hex')";
const publisherSql = 'SELECT p.record FROM ql3.publishers AS p WHERE p.key_id = :keyId';
const publishersSql = 'SELECT json_agg(p.record ORDER BY p.added_at_ms, p.key_id) FROM ql3.publishers AS p';

export type CondemnationJson = { readonly quarantineReason: string | null; readonly isPublisherRevoked: boolean };

export function decodeCondemnation({ quarantineReason, isPublisherRevoked }: CondemnationJson) {
  return { isQuarantined: quarantineReason !== null, quarantineReason, isPublisherRevoked };
}

type SnapshotJson = {
  readonly installation: unknown;
  readonly publication: unknown;
  readonly lifecycle: unknown;
  readonly revision: unknown;
  readonly condemnation: CondemnationJson;
};

/** `kept` is the revision that the server was told to leave out. */
function decodeHead(json: unknown, known: Known, kept: MaterializedRevision | null): PackageHead | null {
  const snapshot = json as SnapshotJson | null;
  if (snapshot === null) {
    return null;
  }
  const installation = readInstallation(snapshot.installation);
  const { projectId, packageName, materializedRevisionDigest } = installation.target;
  if (snapshot.publication === null || snapshot.lifecycle === null) {
    throw damaged(`package ${packageName}`, 'lacks its publication or its lifecycle');
  }
  const isKept = snapshot.revision === null && kept?.digest === materializedRevisionDigest;
  const revision = isKept ? kept : readRevision(snapshot.revision, materializedRevisionDigest);
  known.keepRevisionOf(projectId, packageName, revision);
  return {
    installation,
    publication: readPublication(snapshot.publication),
    lifecycle: readLifecycle(snapshot.lifecycle),
    revision,
    ...decodeCondemnation(snapshot.condemnation),
  };
}

export function createPackageParts(known: Known) {
  const packagePart: PartOf<'package'> = ({ projectId, packageName }) => {
    const kept = known.revisionOf(projectId, packageName);
    return {
      sql: packageSql,
      values: { projectId, packageName, known: kept?.digest ?? '' },
      decode: (json) => decodeHead(json, known, kept),
    };
  };
  const startFactsPart: PartOf<'startFacts'> = ({ projectId, packageName, installationId, lockDigest }) => {
    const kept = known.revisionOf(projectId, packageName);
    return {
      sql: startFactsSql,
      values: { projectId, packageName, installationId, lockDigest, known: kept?.digest ?? '' },
      decode(json) {
        const { head, condemnation } = json as { head: unknown; condemnation: CondemnationJson };
        return { head: decodeHead(head, known, kept), ...decodeCondemnation(condemnation) };
      },
    };
  };
  const packagesPart: PartOf<'packages'> = ({ projectId }) => ({
    sql: packagesSql,
    values: { projectId },
    decode: (json) => ((json ?? []) as unknown[]).flatMap((head) => decodeHead(head, known, null) ?? []),
  });
  const packageOfRunPart: PartOf<'packageOfRun'> = ({ runId }) => ({
    sql: packageOfRunSql,
    values: { runId },
    decode: (json) => decodeHead(json, known, null),
  });
  return { packagePart, startFactsPart, packagesPart, packageOfRunPart };
}

export const settingsPart: PartOf<'settings'> = ({ projectId, packageName }) => ({
  sql: settingsSql,
  values: { projectId, packageName },
  decode: (json) => (json ?? []) as PackageSetting[],
});

export const lockCondemnationPart: PartOf<'lockCondemnation'> = ({ projectId, packageName, lockDigest }) => ({
  sql: lockCondemnationSql,
  values: { projectId, packageName, lockDigest },
  decode(json) {
    const { quarantineReason, publisher } = json as { quarantineReason: string | null; publisher: unknown };
    const revoked = publisher === null ? null : readPublisher(publisher);
    const revokedKey = revoked === null ? null : { keyId: revoked.keyId, reason: revoked.revokeReason ?? '' };
    return { isQuarantined: quarantineReason !== null, quarantineReason, revokedKey };
  },
});

export const installationsPart: PartOf<'installations'> = ({ projectId }) => ({
  sql: installationsSql,
  values: { projectId },
  decode: (json) => ((json ?? []) as unknown[]).map(readInstallation),
});

export const packageFilesPart: PartOf<'packageFiles'> = ({ lockDigest }) => ({
  sql: packageFilesSql,
  values: { lockDigest },
  decode: (json) => (json === null ? null : readPackageFiles(json, lockDigest)),
});

export const publisherPart: PartOf<'publisher'> = ({ keyId }) => ({
  sql: publisherSql,
  values: { keyId },
  decode: (json) => (json === null ? null : readPublisher(json)),
});

export const publishersPart: PartOf<'publishers'> = () => ({
  sql: publishersSql,
  values: {},
  decode: (json) => ((json ?? []) as unknown[]).map(readPublisher),
});
