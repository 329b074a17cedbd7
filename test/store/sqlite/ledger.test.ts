import t from 'tap';
import { derivePublisherKeyId } from '../../../src/core/ids.ts';
import {
  appendLifecycle,
  appendPublication,
  type Installation,
  sealGeneration,
} from '../../../src/core/publication.ts';
import { computeLockDigest } from '../../../src/core/revision.ts';
import { isCollision } from '../../../src/store/sqlite/statement.ts';
import { admittedAtMs, edgeErrorOf } from '../../core/samples.ts';
import { admitRun, openSample, type Sample } from './sample-database.ts';

const shape = { a: [], b: ['a'] };
const place = { projectId: 'default', packageName: 'net-watch' };

function collides(t: Parameters<typeof openSample>[0], action: () => unknown, what: string): void {
  try {
    action();
    t.fail(`${what} is taken`);
  } catch (error) {
    t.ok(isCollision(error), what);
  }
}

/** Generation 2 of the sample's package, with the same contents in an installation of its own, signed by `key-a`. */
function upgradeOf({ target, installation, publication, revision, db }: Sample) {
  db.exec("INSERT INTO Publishers VALUES ('key-a', zeroblob(32), 1, NULL, NULL)");
  const { generationDigest: _digest, ...contents } = target;
  const next = sealGeneration({ ...contents, installationId: 'inst-2', generation: 2 });
  const signed = { publisherKeyId: 'key-a', signature: '5a'.repeat(64) };
  const upgraded: Installation = { ...installation, target: next, ...signed };
  const nowMs = admittedAtMs;
  const lifecycle = appendLifecycle({ previous: null, target: next, state: 'active', reason: null, nowMs });
  const { lifecycleEventDigest } = lifecycle;
  const state = 'active';
  const published = appendPublication({
    previous: publication,
    target: next,
    state,
    lifecycleEventDigest,
    revision,
    nowMs,
  });
  return { upgraded, lifecycle, published };
}

function upgrade(sample: Sample) {
  const { ledger } = sample;
  const { upgraded, lifecycle, published } = upgradeOf(sample);
  ledger({ write: 'revision', revision: sample.revision });
  ledger({ write: 'installation-state', installationId: 'inst-1', from: 'active', to: 'superseded' });
  ledger({ write: 'installation', installation: upgraded });
  ledger({ write: 'installation-head', installation: upgraded, expectedInstallationId: 'inst-1' });
  ledger({ write: 'lifecycle', event: lifecycle });
  ledger({ write: 'publication', publication: published });
  return { upgraded, lifecycle, published };
}

t.test('an installed package is read back as it was written', async (t) => {
  const sample = openSample(t, shape);
  const { installation, publication, lifecycle, revision } = sample;
  const free = { isQuarantined: false, quarantineReason: null, isPublisherRevoked: false };
  const head = { installation, publication, lifecycle, revision, ...free };
  t.same(sample.reads.package(place), head);
  t.same(sample.reads.packages({ projectId: 'default' }), [head]);
  t.same(sample.reads.installations({ projectId: 'default' }), [installation]);
  t.equal(sample.reads.package({ ...place, packageName: 'other' }), null);
  t.same(sample.reads.packages({ projectId: 'other' }), []);
});

t.test('an upgrade moves the heads; the generation before stays, superseded', async (t) => {
  const sample = openSample(t, shape);
  const { upgraded, lifecycle, published } = upgrade(sample);
  const { revision } = sample;
  const head = {
    installation: upgraded,
    publication: published,
    lifecycle,
    revision,
    isQuarantined: false,
    quarantineReason: null,
    isPublisherRevoked: false,
  };
  t.same(sample.reads.package(place), head);
  t.same(sample.reads.installations({ projectId: 'default' }), [
    { ...sample.installation, state: 'superseded' },
    upgraded,
  ]);
  t.equal(sample.db.prepare('SELECT count(*) AS number FROM MaterializedRevisions').get()?.['number'], 1);
});

t.test('the last lifecycle event is the state of an installation', async (t) => {
  const sample = openSample(t, shape);
  const { target, lifecycle, publication, ledger } = sample;
  const disabled = appendLifecycle({
    previous: lifecycle,
    target,
    state: 'disabled',
    reason: 'noisy',
    nowMs: admittedAtMs,
  });
  const { lifecycleEventDigest } = disabled;
  const withdrawn = {
    previous: publication,
    target,
    state: 'withdrawn',
    lifecycleEventDigest,
    revision: null,
  } as const;
  const next = appendPublication({ ...withdrawn, nowMs: admittedAtMs });
  ledger({ write: 'lifecycle', event: disabled });
  ledger({ write: 'publication', publication: next });
  t.match(sample.reads.package(place), { lifecycle: disabled, publication: next });
});

t.test('a head or state that is not the expected one is a broken invariant', async (t) => {
  const sample = openSample(t, shape);
  const { ledger, installation, publication } = sample;
  const { upgraded, published } = upgradeOf(sample);
  ledger({ write: 'installation', installation: upgraded });
  t.throws(
    () => ledger({ write: 'installation-head', installation: upgraded, expectedInstallationId: 'inst-9' }),
    /broken invariant: the head of package net-watch is installation inst-9/,
  );
  t.throws(
    () => ledger({ write: 'installation-state', installationId: 'inst-1', from: 'staged', to: 'active' }),
    /broken invariant: installation inst-1 is staged/,
  );
  const skipping = { ...published, version: 3 };
  t.throws(
    () => ledger({ write: 'publication', publication: skipping }),
    /broken invariant: the head of package net-watch/,
  );
  const forked = { ...published, version: 2, previousPublicationDigest: 'f'.repeat(64) };
  t.throws(() => ledger({ write: 'publication', publication: forked }), /broken invariant/);
  t.same(sample.reads.package(place)?.installation, installation);
  t.same(sample.reads.package(place)?.publication, publication);
});

t.test('a taken identity of a package is a collision', async (t) => {
  const sample = openSample(t, shape);
  const { ledger, installation, publication, lifecycle } = sample;
  const head = { write: 'installation-head', installation, expectedInstallationId: null } as const;
  collides(t, () => ledger({ write: 'installation', installation }), 'the installation');
  collides(t, () => ledger(head), 'the head');
  collides(t, () => ledger({ write: 'publication', publication }), 'the version of the publication');
  collides(t, () => ledger({ write: 'lifecycle', event: lifecycle }), 'the sequence of the lifecycle');
  const twin = { ...installation, target: { ...installation.target, installationId: 'inst-2' } };
  collides(t, () => ledger({ write: 'installation', installation: twin }), 'the generation');
});

t.test('each identity of an admission collides, and names itself as that', async (t) => {
  const sample = openSample(t, shape);
  admitRun(sample, 1);
  const before = sample.db.prepare('SELECT count(*) AS number FROM RunRecords').get();
  const identities = {
    'UPDATE RunIdentities SET runId = :id': 'run-2',
    'UPDATE QingLong3PluginPackageWorkflowAdmissions SET planId = :id': 'plan-2',
    'UPDATE AdmissionKeys SET planId = :id': 'plan-2',
    'UPDATE AdmissionKeys SET idempotencyKey = :id': 'key-2',
  };
  sample.db.exec('DROP TRIGGER RunIdentitiesNeverChange');
  sample.db.exec('DROP TRIGGER QingLong3PluginPackageWorkflowAdmissionsNeverChange');
  for (const [take, id] of Object.entries(identities)) {
    sample.db.exec('BEGIN');
    sample.db.prepare(take).run({ id });
    sample.db.exec('SAVEPOINT operation');
    collides(t, () => admitRun(sample, 2), take);
    sample.db.exec('ROLLBACK TO operation');
    t.same(sample.db.prepare('SELECT count(*) AS number FROM RunRecords').get(), before);
    sample.db.exec('ROLLBACK');
  }
  admitRun(sample, 2);
  t.ok(sample.reads.isRunKnown({ runId: 'run-2' }));
});

t.test('an admission is found by its plan, its run and its key; another project has keys of its own', async (t) => {
  const sample = openSample(t, shape);
  const { plan, events } = admitRun(sample, 1);
  admitRun(sample, 2, { idempotencyKey: null });
  const { reads } = sample;
  const start = { projectId: 'default', idempotencyKey: 'key-1' };
  const evidence = reads.admission({ planId: 'plan-1' })!;
  t.same(evidence.plan, plan);
  t.same(evidence.events, events);
  t.equal(evidence.receipt.finalRunVersion, 3);
  t.same(reads.admissionOfRun({ runId: 'run-1' }), evidence);
  t.same(reads.admissionOfStart(start), evidence);
  t.same(reads.keyOfStart(start), reads.keyOfPlan({ planId: 'plan-1' }));
  t.match(reads.keyOfPlan({ planId: 'plan-2' }), { runId: 'run-2', idempotencyKey: null });
  t.equal(reads.keyOfStart({ projectId: 'other', idempotencyKey: 'key-1' }), null);
  t.equal(reads.keyOfStart({ projectId: 'default', idempotencyKey: '' }), null);
  t.equal(reads.admission({ planId: 'plan-9' }), null);
  t.equal(reads.admissionOfRun({ runId: 'run-9' }), null);
  t.equal(reads.plan({ runId: 'run-9' }), null);
  t.equal(reads.run({ runId: 'run-9' }), null);
  t.equal(reads.step({ runId: 'run-9', stepRunId: 'st_0' }), null);
  t.equal(reads.step({ runId: 'run-1', stepRunId: 'st_0' }), null);
});

t.test('quarantine and revocation are facts of exactly one installation; a lock is asked for alone', async (t) => {
  const sample = openSample(t, shape);
  const { reads, ledger, target } = sample;
  admitRun(sample, 1);
  const { upgraded } = upgrade(sample);
  const { projectId, packageName, installationId, lockDigest } = target;
  const first = { projectId, packageName, installationId, lockDigest };
  const second = { ...first, installationId: 'inst-2' };
  ledger({ write: 'quarantine', quarantine: { ...first, reason: 'bad', atMs: admittedAtMs } });
  t.match(reads.startFacts(first), { isQuarantined: true, quarantineReason: 'bad', isPublisherRevoked: false });
  t.match(reads.startFacts(second), { isQuarantined: false, head: { installation: upgraded, isQuarantined: false } });
  t.match(reads.startFacts({ ...first, lockDigest: 'a'.repeat(64) }), { isQuarantined: false });
  const free = { isQuarantined: false, quarantineReason: null, revokedKey: null };
  t.strictSame(reads.lockCondemnation({ projectId, packageName, lockDigest }), {
    ...free,
    isQuarantined: true,
    quarantineReason: 'bad',
  });
  t.strictSame(reads.lockCondemnation({ projectId, packageName: 'other', lockDigest }), free);
  const stepRunId = [...reads.run({ runId: 'run-1' })!.steps.keys()][0]!;
  t.equal(reads.step({ runId: 'run-1', stepRunId })?.isQuarantined, true, 'a step of its run knows');
  collides(t, () => ledger({ write: 'quarantine', quarantine: { ...first, reason: 'again', atMs: 1 } }), 'it');
  t.match(reads.startFacts(second), { isPublisherRevoked: false });
  ledger({ write: 'revocation', keyId: 'key-a', reason: 'leaked', atMs: 2 });
  t.match(reads.startFacts(second), { isPublisherRevoked: true, head: { isPublisherRevoked: true } });
  t.match(reads.startFacts(first), { isPublisherRevoked: false });
});

t.test('a publisher is read back, is revoked once, and a key that is not its id is damage', async (t) => {
  const { ledger, reads, db } = openSample(t, shape);
  const publicKey = 'ab'.repeat(32);
  const keyId = derivePublisherKeyId(publicKey);
  const publisher = { keyId, publicKey, addedAtMs: 1, revokedAtMs: null, revokeReason: null };
  ledger({ write: 'publisher', publisher });
  t.same(reads.publisher({ keyId }), publisher);
  t.equal(reads.publisher({ keyId: '' }), null);
  collides(t, () => ledger({ write: 'publisher', publisher }), 'the key');
  const revocation = { write: 'revocation', keyId, reason: 'leaked', atMs: 2 } as const;
  ledger(revocation);
  t.same(reads.publishers({}), [{ ...publisher, revokedAtMs: 2, revokeReason: 'leaked' }]);
  t.throws(() => ledger(revocation), /broken invariant/);
  t.throws(() => db.exec('UPDATE Publishers SET revokedAtMs = NULL, revokeReason = NULL'), /change once/);
  t.throws(() => db.exec('DELETE FROM Publishers'), /Publishers stay/);
  db.exec("INSERT INTO Publishers VALUES ('pk_other', zeroblob(32), 1, NULL, NULL)");
  t.match(
    edgeErrorOf(() => reads.publisher({ keyId: 'pk_other' })),
    { code: 'damaged' },
  );
});

t.test('the bytes that a revoked key signed are refused under that package alone', async (t) => {
  const sample = openSample(t, shape);
  const { ledger, reads, target } = sample;
  const { projectId, packageName, lockDigest } = target;
  upgrade(sample);
  const free = { isQuarantined: false, quarantineReason: null, revokedKey: null };
  t.strictSame(reads.lockCondemnation({ projectId, packageName, lockDigest }), free);
  ledger({ write: 'revocation', keyId: 'key-a', reason: 'leaked', atMs: 2 });
  t.strictSame(reads.lockCondemnation({ projectId, packageName, lockDigest }), {
    ...free,
    revokedKey: { keyId: 'key-a', reason: 'leaked' },
  });
  t.strictSame(reads.lockCondemnation({ projectId, packageName, lockDigest: 'a'.repeat(64) }), free);
  t.strictSame(reads.lockCondemnation({ projectId, packageName: 'other', lockDigest }), free);
});

t.test('the files of a package are read back by their lock digest, and an altered list is damage', async (t) => {
  const { ledger, reads, db } = openSample(t, shape);
  const files = [
    { path: 'qinglong.yaml', mode: 0o600, size: 3, sha256: 'a'.repeat(64) },
    { path: 'scripts/签到.sh', mode: 0o700, size: 0, sha256: 'b'.repeat(64) },
  ];
  const lockDigest = computeLockDigest(files);
  ledger({ write: 'package-files', lockDigest, files });
  ledger({ write: 'package-files', lockDigest, files });
  t.same(reads.packageFiles({ lockDigest }), files);
  t.equal(reads.packageFiles({ lockDigest: 'c'.repeat(64) }), null);
  db.exec('DROP TRIGGER PackageFilesNeverChange');
  for (const altered of ['[]', '[1]', '{}', '[']) {
    db.prepare('UPDATE PackageFiles SET files = ?').run(altered);
    t.match(
      edgeErrorOf(() => reads.packageFiles({ lockDigest })),
      { code: 'damaged' },
      altered,
    );
  }
});

t.test('a run is set aside with its reason, the latest one, until it is taken back', async (t) => {
  const { ledger, reads } = openSample(t, shape);
  const first = { runId: 'run-1', code: 'damaged', summary: 'altered', atMs: 1 };
  const second = { ...first, summary: 'missing', atMs: 2 };
  ledger({ write: 'set-aside', setAside: first });
  ledger({ write: 'set-aside', setAside: second });
  t.same(reads.setAside({ runId: 'run-1' }), second);
  ledger({ write: 'set-aside', setAside: { ...first, runId: 'run-0' } });
  t.same(reads.allSetAside({ limit: 1 }), [{ ...first, runId: 'run-0' }]);
  t.same(reads.allSetAside({ limit: 1, after: 'run-0' }), [second]);
  t.same(reads.allSetAside({ limit: 1, after: 'run-1' }), []);
  ledger({ write: 'clear-set-aside', runId: 'run-1' });
  t.equal(reads.setAside({ runId: 'run-1' }), null);
});

const damages = {
  'UPDATE PackageInstallations SET generation = 7': /PackageInstallations of net-watch 7 differs/,
  'UPDATE PackageInstallations SET lockDigest = zeroblob(32)': /PackageInstallations/,
  "UPDATE AutomationPublications SET state = 'absent'": /AutomationPublications of net-watch differs/,
  "UPDATE AutomationPublications SET workflows = '[]'": /AutomationPublications/,
  "UPDATE AutomationPublications SET workflows = '['": /AutomationPublications/,
  'UPDATE AutomationPublicationHeads SET publicationDigest = zeroblob(32)': /lacks its publication/,
  'DELETE FROM AutomationPublicationHeads': /lacks its publication/,
  "UPDATE PackageLifecycleEvents SET state = 'disabled'": /PackageLifecycleEvents/,
  'DELETE FROM PackageLifecycleEvents': /lacks its publication or its lifecycle/,
  "UPDATE MaterializedRevisions SET revision = replace(revision, '1.0.0', '1.0.1')": /MaterializedRevisions/,
  "UPDATE MaterializedRevisions SET revision = revision || ' '": /MaterializedRevisions/,
  'UPDATE MaterializedRevisions SET revisionDigest = zeroblob(32)': /MaterializedRevisions [0-9a-f]{12} is missing/,
};

t.test('what was altered of a package is damage, and is not repaired', async (t) => {
  for (const [damage, message] of Object.entries(damages)) {
    // A database each: revisions are remembered.
    await t.test(damage, async (t) => {
      const { db, reads } = openSample(t, shape);
      const triggers = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").all();
      db.exec(triggers.map((row) => `DROP TRIGGER ${row['name']};`).join(''));
      db.exec(damage);
      const changes = db.prepare('SELECT total_changes() AS number').get();
      t.match(
        edgeErrorOf(() => reads.package(place)),
        { code: 'damaged', message },
      );
      t.same(db.prepare('SELECT total_changes() AS number').get(), changes);
    });
  }
});
