// Writes beside the runs: admissions, installations and their heads, revisions, the publication chain, lifecycle
// events, quarantines, runs set aside. Inside whatever transaction is open. A taken identity is a constraint error of
// SQLite, which `isCollision` recognizes; a head or state that is not the expected one is a broken invariant.
import type { DatabaseSync } from 'node:sqlite';
import { canonicalJson } from '../../core/canonical-json.ts';
import { assert } from '../../core/errors.ts';
import type { Publication } from '../../core/publication.ts';
import type { LedgerWrite } from '../../protocol/protocol.ts';
import type { SetAside } from '../../protocol/reads.ts';
import { toBytes } from './codec.ts';
import { createAdmissionWrite } from './ledger-admission.ts';
import {
  encodeInstallation,
  encodeLifecycle,
  encodePublication,
  encodeQuarantine,
  type InstallationRow,
  type LifecycleRow,
  type PublicationRow,
} from './rows-package.ts';
import { encodePackageFiles, encodePublisher, type PackageFilesRow, type PublisherRow } from './rows-publisher.ts';
import type { RunMemory } from './run-memory.ts';
import { statement } from './statement.ts';

const insertInstallationSql = `INSERT INTO PackageInstallations (
    installationId, projectId, packageName, generation, lockDigest, generationDigest, materializedRevisionDigest,
    version, state, publisherKeyId, signature, installedAtMs
  ) VALUES (
    :installationId, :projectId, :packageName, :generation, :lockDigest, :generationDigest,
    :materializedRevisionDigest, :version, :state, :publisherKeyId, :signature, :installedAtMs
  )`;
const moveInstallationSql = `UPDATE PackageInstallations SET state = :to
  WHERE installationId = :installationId AND state = :from`;
const insertHeadSql = `INSERT INTO PackageInstallationHeads (projectId, packageName, installationId)
  VALUES (:projectId, :packageName, :installationId)`;
const moveHeadSql = `UPDATE PackageInstallationHeads SET installationId = :installationId
  WHERE projectId = :projectId AND packageName = :packageName AND installationId = :expectedInstallationId`;
// Named by its digest, so that one which is there already is this one.
const insertRevisionSql = `INSERT INTO MaterializedRevisions (revisionDigest, revision)
  VALUES (:revisionDigest, :revision) ON CONFLICT (revisionDigest) DO NOTHING`;
const insertPublicationSql = `INSERT INTO AutomationPublications (
    projectId, packageName, version, state, installationId, generation, lockDigest, generationDigest,
    materializedRevisionDigest, previousPublicationDigest, lifecycleEventDigest, workflows, publishedAtMs,
    publicationDigest
  ) VALUES (
    :projectId, :packageName, :version, :state, :installationId, :generation, :lockDigest, :generationDigest,
    :materializedRevisionDigest, :previousPublicationDigest, :lifecycleEventDigest, :workflows, :publishedAtMs,
    :publicationDigest
  )`;
const insertPublicationHeadSql = `INSERT INTO AutomationPublicationHeads (
    projectId, packageName, version, publicationDigest
  ) VALUES (:projectId, :packageName, :version, :publicationDigest)`;
const movePublicationHeadSql = `UPDATE AutomationPublicationHeads
  SET version = :version, publicationDigest = :publicationDigest
  WHERE projectId = :projectId AND packageName = :packageName AND version = :version - 1
    AND publicationDigest = :previousPublicationDigest`;
const insertLifecycleSql = `INSERT INTO PackageLifecycleEvents (
    installationId, sequence, projectId, packageName, state, reason, atMs, lifecycleEventDigest
  ) VALUES (
    :installationId, :sequence, :projectId, :packageName, :state, :reason, :atMs, :lifecycleEventDigest
  )`;
const insertQuarantineSql = `INSERT INTO PackageQuarantines (
    projectId, packageName, lockDigest, installationId, reason, atMs
  ) VALUES (:projectId, :packageName, :lockDigest, :installationId, :reason, :atMs)`;
const setSettingSql = `INSERT INTO PackageSettings (projectId, packageName, name, value, salt, updatedAtMs)
  VALUES (:projectId, :packageName, :name, :value, :salt, :updatedAtMs)
  ON CONFLICT (projectId, packageName, name)
  DO UPDATE SET value = excluded.value, salt = excluded.salt, updatedAtMs = excluded.updatedAtMs`;
const clearSettingSql = `DELETE FROM PackageSettings
  WHERE projectId = :projectId AND packageName = :packageName AND name = :name`;
// Named by its digest, like a revision.
const insertFilesSql = `INSERT INTO PackageFiles (lockDigest, files) VALUES (:lockDigest, :files)
  ON CONFLICT (lockDigest) DO NOTHING`;
const insertPublisherSql = `INSERT INTO Publishers (keyId, publicKey, addedAtMs, revokedAtMs, revokeReason)
  VALUES (:keyId, :publicKey, :addedAtMs, :revokedAtMs, :revokeReason)`;
const revokePublisherSql = `UPDATE Publishers SET revokedAtMs = :atMs, revokeReason = :reason
  WHERE keyId = :keyId AND revokedAtMs IS NULL`;
const setAsideSql = `INSERT INTO SetAside (runId, code, summary, atMs) VALUES (:runId, :code, :summary, :atMs)
  ON CONFLICT (runId) DO UPDATE SET code = excluded.code, summary = excluded.summary, atMs = excluded.atMs`;
const clearSetAsideSql = 'DELETE FROM SetAside WHERE runId = :runId';

type Writes = { readonly [W in LedgerWrite['write']]: (write: Extract<LedgerWrite, { readonly write: W }>) => void };

/** Carries out one ledger write. Throws SQLite's constraint error for a taken identity, `InvariantError` for a miss. */
export function createLedger(db: DatabaseSync, memory: RunMemory | null = null): (write: LedgerWrite) => void {
  const insertRevision = statement<{ revisionDigest: Uint8Array; revision: string }>(db, insertRevisionSql);
  const insertLifecycle = statement<LifecycleRow>(db, insertLifecycleSql);
  const insertQuarantine = statement<ReturnType<typeof encodeQuarantine>>(db, insertQuarantineSql);
  const setAside = statement<SetAside>(db, setAsideSql);
  const clearSetAside = statement<{ runId: string }>(db, clearSetAsideSql);
  const publish = createPublicationWrite(db);
  const writes: Writes = {
    admission: createAdmissionWrite(db, memory),
    ...createInstallationWrites(db),
    revision({ revision }) {
      insertRevision.run({ revisionDigest: toBytes(revision.digest), revision: canonicalJson(revision) });
    },
    publication: ({ publication }) => publish(publication),
    lifecycle({ event }) {
      insertLifecycle.run(encodeLifecycle(event));
    },
    quarantine({ quarantine }) {
      insertQuarantine.run(encodeQuarantine(quarantine));
    },
    ...createSettingWrites(db),
    ...createPublisherWrites(db),
    'set-aside'({ setAside: row }) {
      setAside.run(row);
    },
    'clear-set-aside'({ runId }) {
      clearSetAside.run({ runId });
    },
  };
  return (write) => {
    if (write.write !== 'admission') {
      memory?.packagesChanged();
    }
    (writes[write.write] as (write: LedgerWrite) => void)(write);
  };
}

type SettingPlace = { projectId: string; packageName: string; name: string };
type SettingRow = SettingPlace & { value: string; salt: Uint8Array; updatedAtMs: number };

function createSettingWrites(db: DatabaseSync): Pick<Writes, 'setting' | 'clear-setting'> {
  const set = statement<SettingRow>(db, setSettingSql);
  const clear = statement<SettingPlace>(db, clearSettingSql);
  return {
    setting({ projectId, packageName, setting: { name, value, salt, updatedAtMs } }) {
      set.run({ projectId, packageName, name, value, salt: toBytes(salt), updatedAtMs });
    },
    'clear-setting'({ projectId, packageName, name }) {
      clear.run({ projectId, packageName, name });
    },
  };
}

function createPublisherWrites(db: DatabaseSync): Pick<Writes, 'package-files' | 'publisher' | 'revocation'> {
  const insertFiles = statement<PackageFilesRow>(db, insertFilesSql);
  const insertPublisher = statement<PublisherRow>(db, insertPublisherSql);
  const revoke = statement<{ keyId: string; reason: string; atMs: number }>(db, revokePublisherSql);
  return {
    'package-files'({ lockDigest, files }) {
      insertFiles.run(encodePackageFiles(lockDigest, files));
    },
    publisher({ publisher }) {
      insertPublisher.run(encodePublisher(publisher));
    },
    revocation({ keyId, reason, atMs }) {
      assert(revoke.run({ keyId, reason, atMs }) === 1, `publisher ${keyId} is not revoked`);
    },
  };
}

type HeadPlace = { projectId: string; packageName: string; installationId: string };

function createInstallationWrites(
  db: DatabaseSync,
): Pick<Writes, 'installation' | 'installation-state' | 'installation-head'> {
  const insert = statement<InstallationRow>(db, insertInstallationSql);
  const move = statement<{ installationId: string; from: string; to: string }>(db, moveInstallationSql);
  const insertHead = statement<HeadPlace>(db, insertHeadSql);
  const moveHead = statement<HeadPlace & { expectedInstallationId: string }>(db, moveHeadSql);
  return {
    installation({ installation }) {
      insert.run(encodeInstallation(installation));
    },
    'installation-state'({ installationId, from, to }) {
      assert(move.run({ installationId, from, to }) === 1, `installation ${installationId} is ${from}`);
    },
    'installation-head'({ installation, expectedInstallationId }) {
      const { projectId, packageName, installationId } = installation.target;
      const head = { projectId, packageName, installationId };
      const changes =
        expectedInstallationId === null ? insertHead.run(head) : moveHead.run({ ...head, expectedInstallationId });
      assert(changes === 1, `the head of package ${packageName} is installation ${expectedInstallationId}`);
    },
  };
}

type PublicationHead = Pick<PublicationRow, 'projectId' | 'packageName' | 'version' | 'publicationDigest'>;

function createPublicationWrite(db: DatabaseSync): (publication: Publication) => void {
  const insert = statement<PublicationRow>(db, insertPublicationSql);
  const insertHead = statement<PublicationHead>(db, insertPublicationHeadSql);
  const moveHead = statement<PublicationHead & { previousPublicationDigest: Uint8Array }>(db, movePublicationHeadSql);
  return (publication) => {
    const row = encodePublication(publication);
    const { projectId, packageName, version, publicationDigest, previousPublicationDigest } = row;
    const head = { projectId, packageName, version, publicationDigest };
    insert.run(row);
    const changes =
      previousPublicationDigest === null ? insertHead.run(head) : moveHead.run({ ...head, previousPublicationDigest });
    assert(changes === 1, `the head of package ${packageName} is the publication before version ${version}`);
  };
}
