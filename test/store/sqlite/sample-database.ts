// A real database with the real schema, one installed package, and runs admitted and told into it: what the tests of
// reads, append and ledger share.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import { type AdmissionRequest, buildAdmission } from '../../../src/core/admission.ts';
import { assert } from '../../../src/core/errors.ts';
import type { EventDraft, RunEvent } from '../../../src/core/events.ts';
import { buildPlan, type Plan } from '../../../src/core/plan.ts';
import {
  appendLifecycle,
  appendPublication,
  type GenerationTarget,
  type Installation,
  type LifecycleEvent,
  type Publication,
  sealGeneration,
} from '../../../src/core/publication.ts';
import type { RunRows } from '../../../src/core/records.ts';
import type { MaterializedRevision } from '../../../src/core/revision.ts';
import { createAppend } from '../../../src/store/sqlite/append.ts';
import { createLedger } from '../../../src/store/sqlite/ledger.ts';
import { createReads, type SqliteReads } from '../../../src/store/sqlite/reads.ts';
import { admittedAtMs, revisionOf, type Shape, sampleRequest } from '../../core/samples.ts';

export const schemaFolder = path.join(import.meta.dirname, '../../../schema/sqlite');

/** The migrations by their names, in order. */
export function readSchema(): ReadonlyMap<string, string> {
  const files = readdirSync(schemaFolder).sort();
  return new Map(files.map((file) => [file, readFileSync(path.join(schemaFolder, file), 'utf8')]));
}

/** A database as the migrations make it, in a file that goes with the test. */
export function openDatabase(t: Test): DatabaseSync {
  const db = new DatabaseSync(path.join(t.testdir(), 'sample.db'));
  t.teardown(() => db.close());
  db.exec(
    'PRAGMA page_size = 1024; PRAGMA synchronous = OFF; PRAGMA recursive_triggers = ON; PRAGMA foreign_keys = ON',
  );
  db.exec('BEGIN');
  for (const sql of readSchema().values()) {
    db.exec(sql);
  }
  db.exec('COMMIT');
  return db;
}

export type Sample = {
  readonly db: DatabaseSync;
  readonly reads: SqliteReads;
  readonly append: ReturnType<typeof createAppend>;
  readonly ledger: ReturnType<typeof createLedger>;
  readonly revision: MaterializedRevision;
  readonly target: GenerationTarget;
  readonly installation: Installation;
  readonly publication: Publication;
  readonly lifecycle: LifecycleEvent;
};

/** Package `net-watch` with workflow `watch` of this shape, installed and published in a fresh database. */
export function openSample(t: Test, shape: Shape): Sample {
  const db = openDatabase(t);
  const ledger = createLedger(db);
  const revision = revisionOf(shape);
  const target = sealGeneration({
    projectId: 'default',
    packageName: revision.packageName,
    installationId: 'inst-1',
    lockDigest: revision.lockDigest,
    generation: 1,
    materializedRevisionDigest: revision.digest,
  });
  const nowMs = admittedAtMs - 5_000;
  const lifecycle = appendLifecycle({ previous: null, target, state: 'active', reason: null, nowMs });
  const { lifecycleEventDigest } = lifecycle;
  const publication = appendPublication({
    previous: null,
    target,
    state: 'active',
    lifecycleEventDigest,
    revision,
    nowMs,
  });
  const installation: Installation = {
    target,
    version: revision.version,
    state: 'active',
    publisherKeyId: null,
    signature: null,
    installedAtMs: nowMs,
  };
  ledger({ write: 'revision', revision });
  ledger({ write: 'installation', installation });
  ledger({ write: 'installation-head', installation, expectedInstallationId: null });
  ledger({ write: 'lifecycle', event: lifecycle });
  ledger({ write: 'publication', publication });
  const parts = { reads: createReads(db), append: createAppend(db), ledger };
  return { db, ...parts, revision, target, installation, publication, lifecycle };
}

/** A plan of workflow `watch` for run `run-N`, plan `plan-N`. */
export function planRun(sample: Sample, number = 1): Plan {
  const planned = buildPlan({
    planId: `plan-${number}`,
    runId: `run-${number}`,
    target: sample.target,
    publicationDigest: sample.publication.publicationDigest,
    revision: sample.revision,
    workflowId: 'watch',
    nowMs: admittedAtMs - 1_000,
  });
  assert('plan' in planned, 'the sample workflow can be planned');
  return planned.plan;
}

export type Admitted = { readonly plan: Plan; readonly rows: RunRows; readonly events: readonly RunEvent[] };

/** Admits run `run-N` at a time of its own, so that runs have an order. */
export function admitRun(sample: Sample, number = 1, request: Partial<AdmissionRequest> = {}): Admitted {
  const plan = planRun(sample, number);
  const asked = { ...sampleRequest, idempotencyKey: `key-${number}`, ...request };
  const bundle = buildAdmission(plan, asked, admittedAtMs + number);
  sample.ledger({
    write: 'admission',
    plan,
    bundle,
    key: {
      projectId: sample.target.projectId,
      idempotencyKey: asked.idempotencyKey,
      planId: plan.planId,
      planDigest: plan.planDigest,
      packageName: sample.target.packageName,
      workflowId: plan.workflowId,
      runId: plan.runId,
      receiptDigest: bundle.receipt.receiptDigest,
      expiresAtMs: admittedAtMs + 1_000_000,
    },
  });
  return { plan, rows: bundle.rows, events: bundle.events };
}

/** What was decided before the store numbered and stamped it. */
export function draftOf({
  id: _id,
  runId: _runId,
  sequence: _sequence,
  createdAtMs: _at,
  ...rest
}: RunEvent): EventDraft {
  return rest as EventDraft;
}

/** Carries a run on from its admission by the events of a story. */
export function tellEvents(sample: Sample, admitted: Admitted, events: readonly RunEvent[]): RunRows {
  let rows = admitted.rows;
  for (const event of events.slice(admitted.events.length)) {
    rows = sample.append({ rows, events: [draftOf(event)] }, event.createdAtMs);
  }
  return rows;
}
