// What a decision writes, as statements. None of them decides anything: a taken identity is a unique violation, and a
// head, state or version that is not the expected one raises QL001, which is a broken invariant.
import { assert } from '../../core/errors.ts';
import { type RunEvent, stampEvents } from '../../core/events.ts';
import { foldEvents } from '../../core/evolve.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../../core/records.ts';
import type { Append, LedgerWrite } from '../../protocol/protocol.ts';
import type { Statement } from './connection.ts';
import { encodeJson } from './jsonb.ts';
import { statement, type Values } from './query.ts';
import { ledgerStep } from './reads-admission.ts';

const appendSql = 'SELECT ql3.append(:changes)';
const admitSql = 'SELECT ql3.admit(:admissions)';
const insertInstallationSql = 'INSERT INTO ql3.package_installations (record) VALUES (:record)';
const moveInstallationSql = `WITH moved AS (
    UPDATE ql3.package_installations SET record = jsonb_set(record, '{state}', to_jsonb(:to::text))
    WHERE installation_id = :installationId AND state = :from RETURNING 1
  )
  SELECT ql3.expect_one(count(*), 'the installation is in the expected state') FROM moved`;
const insertHeadSql = `INSERT INTO ql3.package_installation_heads (project_id, package_name, installation_id)
  VALUES (:projectId, :packageName, :installationId)`;
const moveHeadSql = `WITH moved AS (
    UPDATE ql3.package_installation_heads SET installation_id = :installationId
    WHERE project_id = :projectId AND package_name = :packageName AND installation_id = :expectedInstallationId
    RETURNING 1
  )
  SELECT ql3.expect_one(count(*), 'the head of the package is the expected one') FROM moved`;
// Named by its digest, so that one which is there already is this one.
const insertRevisionSql = `INSERT INTO ql3.materialized_revisions (record) VALUES (:record)
  ON CONFLICT (revision_digest) DO NOTHING`;
const insertFilesSql = `INSERT INTO ql3.package_files (lock_digest, files)
  VALUES (decode(:lockDigest, 'hex'), :files) ON CONFLICT (lock_digest) DO NOTHING`;
const insertPublicationSql = 'INSERT INTO ql3.automation_publications (record) VALUES (:record)';
const insertPublicationHeadSql = `INSERT INTO ql3.automation_publication_heads (
    project_id, package_name, version, publication_digest
  ) VALUES (:projectId, :packageName, :version, decode(:publicationDigest, 'hex'))`;
const movePublicationHeadSql = `WITH moved AS (
    UPDATE ql3.automation_publication_heads
    SET version = :version, publication_digest = decode(:publicationDigest, 'hex')
    WHERE project_id = :projectId AND package_name = :packageName AND version = :version - 1
      AND publication_digest = decode(:previousPublicationDigest, 'hex')
    RETURNING 1
  )
  SELECT ql3.expect_one(count(*), 'the head of the publications is the previous one') FROM moved`;
const insertLifecycleSql = 'INSERT INTO ql3.package_lifecycle_events (record) VALUES (:record)';
const insertQuarantineSql = 'INSERT INTO ql3.package_quarantines (record) VALUES (:record)';
const setSettingSql = `INSERT INTO ql3.package_settings (project_id, package_name, record)
  VALUES (:projectId, :packageName, :record)
  ON CONFLICT (project_id, package_name, name) DO UPDATE SET record = excluded.record`;
const clearSettingSql = `DELETE FROM ql3.package_settings
  WHERE project_id = :projectId AND package_name = :packageName AND name = :name`;
const insertPublisherSql = 'INSERT INTO ql3.publishers (record) VALUES (:record)';
const revokePublisherSql = `WITH revoked AS (
    UPDATE ql3.publishers SET record = record || :revocation
    WHERE key_id = :keyId AND revoked_at_ms IS NULL RETURNING 1
  )
  SELECT ql3.expect_one(count(*), 'the publisher is not revoked') FROM revoked`;
const setAsideSql = `INSERT INTO ql3.set_aside (record) VALUES (:record)
  ON CONFLICT (run_id) DO UPDATE SET record = excluded.record`;
const clearSetAsideSql = 'DELETE FROM ql3.set_aside WHERE run_id = :runId';

/** What one append, or several of one run in a row, make of its records. */
export type Change = {
  readonly run: Run;
  readonly expectedVersion: number;
  readonly events: readonly RunEvent[];
  readonly steps: readonly Moved<StepRun>[];
  readonly newAttempts: readonly RunAttempt[];
  readonly attempts: readonly Moved<RunAttempt>[];
};

type Moved<T> = { readonly record: T; readonly expectedDigest: string };

/** Stamps an append's events and folds them into its rows: exactly the records that changed, and what comes of them. */
export function foldAppend({ rows, events: drafts }: Append, wallMs: number): { change: Change; after: RunRows } {
  const events = stampEvents(rows.run, drafts, wallMs);
  const after = foldEvents(rows, events);
  assert(after !== null, `run ${rows.run.id} exists`);
  const steps = [...after.steps.values()].flatMap((record) => {
    const before = rows.steps.get(record.id);
    assert(before !== undefined, 'steps are created by an admission alone');
    return before === record ? [] : [{ record, expectedDigest: before.digest }];
  });
  const changed = [...after.attempts.values()].filter((record) => rows.attempts.get(record.id) !== record);
  const newAttempts = changed.filter(({ id }) => !rows.attempts.has(id));
  const attempts = changed.flatMap((record) => {
    const before = rows.attempts.get(record.id);
    return before === undefined ? [] : [{ record, expectedDigest: before.digest }];
  });
  const change = { run: after.run, expectedVersion: rows.run.version, events, steps, newAttempts, attempts };
  return { change, after };
}

/** Two changes of one run, the second made on what the first left, as one: every event, and each record once. */
export function joinChanges(first: Change, second: Change): Change {
  assert(first.run.version === second.expectedVersion, 'a change follows the one that it was made on');
  const isNew = new Set(first.newAttempts.map(({ id }) => id));
  const moved = second.attempts.filter(({ record }) => !isNew.has(record.id));
  const latest = new Map(second.attempts.map(({ record }) => [record.id, record]));
  return {
    run: second.run,
    expectedVersion: first.expectedVersion,
    events: [...first.events, ...second.events],
    steps: joinMoved(first.steps, second.steps),
    newAttempts: [...first.newAttempts.map((record) => latest.get(record.id) ?? record), ...second.newAttempts],
    attempts: joinMoved(first.attempts, moved),
  };
}

function joinMoved<T extends { readonly id: string }>(
  first: readonly Moved<T>[],
  second: readonly Moved<T>[],
): readonly Moved<T>[] {
  const joined = new Map(first.map((move) => [move.record.id, move]));
  for (const { record, expectedDigest } of second) {
    joined.set(record.id, { record, expectedDigest: joined.get(record.id)?.expectedDigest ?? expectedDigest });
  }
  return [...joined.values()];
}

/** Writes the events of changes, of as many runs, and exactly the records that they name. */
export function writeChanges(changes: readonly Change[]): Statement {
  return statement(appendSql, { changes: encodeJson(changes) });
}

export type AdmissionWrite = Extract<LedgerWrite, { readonly write: 'admission' }>;

/** Everything that an admission creates, as JSON text. */
export function encodeAdmission({ plan, bundle, key }: AdmissionWrite): string {
  const { events, rows, receipt } = bundle;
  const steps = plan.steps.map(({ stepRunId }) => rows.steps.get(stepRunId));
  const ledger = plan.steps.map((step, index) => ledgerStep(plan, step, receipt.steps[index]!));
  const isWhole = steps.every((step) => step !== undefined) && events.length === steps.length + 1;
  assert(isWhole && rows.steps.size === steps.length, 'an admission creates every step of its plan');
  return encodeJson({ run: rows.run, steps, events, plan, receipt, ledger, key });
}

/** Writes admissions that were encoded, of as many runs. */
export function writeAdmissions(encoded: readonly string[]): Statement {
  return statement(admitSql, { admissions: `[${encoded.join()}]` });
}

type Writes = {
  readonly [W in LedgerWrite['write']]: (write: Extract<LedgerWrite, { readonly write: W }>) => readonly Statement[];
};

/** A statement that has to change what it names. */
function one(sql: string, values: Values): readonly Statement[] {
  return [statement(sql, values)];
}

const writes: Writes = {
  admission: (write) => [writeAdmissions([encodeAdmission(write)])],
  installation: ({ installation }) => one(insertInstallationSql, { record: encodeJson(installation) }),
  'installation-state': ({ installationId, from, to }) => one(moveInstallationSql, { installationId, from, to }),
  'installation-head': ({ installation, expectedInstallationId }) => {
    const { projectId, packageName, installationId } = installation.target;
    const place = { projectId, packageName, installationId };
    return expectedInstallationId === null
      ? one(insertHeadSql, place)
      : one(moveHeadSql, { ...place, expectedInstallationId });
  },
  revision: ({ revision }) => one(insertRevisionSql, { record: encodeJson(revision) }),
  publication: ({ publication }) => {
    const { target, version, publicationDigest, previousPublicationDigest } = publication;
    const { projectId, packageName } = target;
    const head = { projectId, packageName, version, publicationDigest };
    return [
      statement(insertPublicationSql, { record: encodeJson(publication) }),
      previousPublicationDigest === null
        ? statement(insertPublicationHeadSql, head)
        : statement(movePublicationHeadSql, { ...head, previousPublicationDigest }),
    ];
  },
  lifecycle: ({ event }) => one(insertLifecycleSql, { record: encodeJson(event) }),
  quarantine: ({ quarantine }) => one(insertQuarantineSql, { record: encodeJson(quarantine) }),
  setting: ({ projectId, packageName, setting }) =>
    one(setSettingSql, { projectId, packageName, record: encodeJson(setting) }),
  'clear-setting': ({ projectId, packageName, name }) => one(clearSettingSql, { projectId, packageName, name }),
  'package-files': ({ lockDigest, files }) => one(insertFilesSql, { lockDigest, files: encodeJson(files) }),
  publisher: ({ publisher }) => one(insertPublisherSql, { record: encodeJson(publisher) }),
  revocation: ({ keyId, reason, atMs }) =>
    one(revokePublisherSql, { keyId, revocation: encodeJson({ revokedAtMs: atMs, revokeReason: reason }) }),
  'set-aside': ({ setAside }) => one(setAsideSql, { record: encodeJson(setAside) }),
  'clear-set-aside': ({ runId }) => one(clearSetAsideSql, { runId }),
};

/** The statements of one ledger write, in order. */
export function writeLedger(write: LedgerWrite): readonly Statement[] {
  return (writes[write.write] as (write: LedgerWrite) => readonly Statement[])(write);
}
