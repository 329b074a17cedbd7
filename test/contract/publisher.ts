// Contract: whose packages are installed and started, and what a revocation ends. Run against every store.
// The signatures are taken as verified: that is done by whoever has the bytes.
import { derivePublisherKeyId } from '../../src/core/ids.ts';
import { limits } from '../../src/core/limits.ts';
import type { PackageSignature } from '../../src/core/publisher.ts';
import { startAttempt } from '../../src/protocol/attempt.ts';
import { cancelCondemned } from '../../src/protocol/condemned.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { addPublisher, revokePublisher } from '../../src/protocol/publisher.ts';
import { read } from '../../src/protocol/reads.ts';
import { setAsideRun } from '../../src/protocol/set-aside.ts';
import {
  admitPlan,
  attemptAdmission,
  beginStep,
  type ContractCase,
  endAttempt,
  exitZero,
  installRevision,
  makePlan,
  moveLifecycle,
  packageHead,
  packageName,
  projectId,
  rowsOf,
  sampleRevision,
  startMain,
  startRun,
  stepOf,
  type World,
} from './world.ts';

const publicKey = 'ab'.repeat(32);
const otherKey = 'cd'.repeat(32);

function signatureBy(key: string): PackageSignature {
  return { keyId: derivePublisherKeyId(key), publicKey: key, signature: '5a'.repeat(64) };
}

const signature = signatureBy(publicKey);
const { keyId } = signature;

function add({ store }: World, key = publicKey) {
  return store.submit(operation(addPublisher, { publicKey: key }));
}

function revoke({ store }: World, id = keyId) {
  return store.submit(operation(revokePublisher, { projectId, keyId: id, reason: 'leaked', requestedBy: 'tester' }));
}

async function installSigned(t: Parameters<ContractCase['run']>[0], world: World): Promise<void> {
  await add(world);
  t.match(await installRevision(world, sampleRevision({ steps: { one: [] } }), { signature }), { kind: 'installed' });
}

export const publisherContract: readonly ContractCase[] = [
  {
    name: 'a key is added once, is listed, and is named by what it is',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      t.same(await world.store.read(read('publishers', {})), []);
      const publisher = { keyId, publicKey, addedAtMs: world.clock.now.wallMs, revokedAtMs: null, revokeReason: null };
      t.same(await add(world), { kind: 'added', publisher });
      world.clock.advance(5);
      t.same(await add(world), { kind: 'existing', publisher });
      await add(world, otherKey);
      t.match(await world.store.read(read('publishers', {})), [publisher, { publicKey: otherKey }]);
    },
  },

  {
    name: 'whose a package is decides whether it is installed, and is recorded with it',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      const revision = sampleRevision();
      const strict = { allowUnsigned: false };
      const unknown = signatureBy(otherKey);
      t.match(await installRevision(world, revision, strict), { kind: 'not-allowed', code: 'unsigned' });
      t.match(await installRevision(world, revision, { ...strict, signature: unknown }), {
        kind: 'not-allowed',
        code: 'publisher_unknown',
        reason: new RegExp(unknown.keyId),
      });
      t.equal(await world.store.read(read('package', { projectId, packageName })), null, 'nothing of it is there');
      t.match(await installRevision(world, revision), { kind: 'installed', trust: { kind: 'unsigned' } });
      t.match(await installRevision(world, revision, { signature: unknown }), {
        kind: 'existing',
        trust: { kind: 'unknown-publisher', keyId: unknown.keyId },
      });
      t.match((await packageHead(world)).installation, { publisherKeyId: null, signature: null });
      await add(world);
      const signed = await installRevision(world, revision, { ...strict, signature });
      t.match(signed, { kind: 'installed', previousGeneration: 1, trust: { kind: 'trusted', keyId } });
      t.match((await packageHead(world)).installation, { publisherKeyId: keyId, signature: signature.signature });
      t.match(await installRevision(world, revision, { signature }), { kind: 'existing', trust: { kind: 'trusted' } });
      t.match(await installRevision(world, revision), { kind: 'existing', trust: { kind: 'trusted', keyId } });
      t.match(await installRevision(world, revision, strict), { kind: 'not-allowed', code: 'unsigned' });
    },
  },

  {
    name: 'the same bytes under another trusted key are another generation, which its revocation finds',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installSigned(t, world);
      await add(world, otherKey);
      const revision = sampleRevision({ steps: { one: [] } });
      const other = signatureBy(otherKey);
      t.match(await installRevision(world, revision, { signature: other }), {
        kind: 'installed',
        previousGeneration: 1,
      });
      t.match(await revoke(world, keyId), { kind: 'revoked', packageNames: [] });
      t.match(await startMain(world), { kind: 'created' }, 'the present generation is not of that key');
      t.match(await revoke(world, other.keyId), { kind: 'revoked', packageNames: [packageName] });
      t.match(await startMain(world), { kind: 'not-allowed', code: 'publisher_revoked' });
    },
  },

  {
    name: 'a revocation stops every start of what the key signed: by name, by plan, and at both barriers',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installSigned(t, world);
      const plan = await makePlan(world);
      const runId = await startRun(world);
      const step = await stepOf(world, runId, 'one');
      const place = { runId, stepRunId: step.id };
      const claimed = await world.store.submit(attemptAdmission(place));
      const attemptId = claimed.kind === 'claimed' ? claimed.attemptId : '';
      // The fact alone, as if the process had died before it could cancel anything.
      const revocation = operation(revokePublisher, { projectId, keyId, reason: 'leaked', requestedBy: 'tester' });
      await world.store.submit({
        ...revocation,
        decide: (rows, circumstances) => ({ ...revocation.decide(rows, circumstances), follow: [] }),
      });
      t.match(await packageHead(world), { isPublisherRevoked: true, isQuarantined: false });
      t.match(await startMain(world), { kind: 'not-allowed', code: 'publisher_revoked' });
      t.match(await admitPlan(world, plan), { kind: 'not-allowed', code: 'publisher_revoked' });
      const barrier = operation(startAttempt, { ...place, attemptId });
      t.match(await world.store.submit(barrier), { kind: 'refused', reason: 'publisher-revoked' });
      const cancelled = await world.store.submit(operation(cancelCondemned, { after: null, requestedBy: 'runtime' }));
      t.same(cancelled, { runIds: [runId] }, 'the next start finds the run');
      t.match((await rowsOf(world, runId)).run, { status: 'cancelled', cancelReason: 'policy' });
    },
  },

  {
    name: 'no attempt is admitted for what a revoked key signed',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installSigned(t, world);
      const runId = await startRun(world);
      const step = await stepOf(world, runId, 'one');
      await world.store.submit(operation(setAsideRun, { runId, code: 'damaged', summary: 'test' }));
      t.match(await revoke(world), { kind: 'revoked' });
      t.match((await rowsOf(world, runId)).run, { status: 'running', cancelReason: null }, 'not reached: set aside');
      t.match(await world.store.submit(attemptAdmission({ runId, stepRunId: step.id })), {
        kind: 'refused',
        reason: 'publisher-revoked',
      });
    },
  },

  {
    name: 'a revocation cancels every running run of every generation that the key signed, and no other',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installSigned(t, world);
      const runIds: string[] = [];
      for (let count = 0; count < limits.pageMax + 3; count += 1) {
        world.clock.advance(1);
        runIds.push(await startRun(world));
      }
      const attempt = await beginStep(world, runIds[0]!, 'one');
      const next = sampleRevision({ steps: { one: [] }, lock: 'b' });
      await installRevision(world, next, { signature });
      const ofNext = await startRun(world);
      await installRevision(world, sampleRevision({ steps: { one: [] }, lock: 'c' }));
      const unsigned = await startRun(world);
      t.match(await revoke(world), { kind: 'revoked', keyId, packageNames: [] });
      for (const runId of [...runIds.slice(1), ofNext]) {
        t.match((await rowsOf(world, runId)).run, { status: 'cancelled', cancelReason: 'policy' });
      }
      t.match((await rowsOf(world, runIds[0]!)).run, { status: 'running', cancelReason: 'policy' });
      t.match((await rowsOf(world, unsigned)).run, { status: 'running', cancelReason: null });
      await endAttempt(world, attempt, exitZero);
      t.equal((await rowsOf(world, runIds[0]!)).run.status, 'cancelled');
      t.match(await revoke(world), { kind: 'existing' });
    },
  },

  {
    name: 'a revoked key is never trusted again, and neither are the bytes that it signed',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      t.match(await revoke(world), { kind: 'not-found' });
      await installSigned(t, world);
      t.match(await revoke(world), { kind: 'revoked', packageNames: [packageName] });
      t.match(await add(world), { kind: 'not-allowed', code: 'publisher_revoked', reason: /leaked/ });
      const revision = sampleRevision({ steps: { one: [] } });
      t.match(await installRevision(world, revision, { signature }), {
        kind: 'not-allowed',
        code: 'publisher_revoked',
      });
      const refused = { kind: 'not-allowed', code: 'publisher_revoked', reason: /were signed by key pk_.*\(leaked\)/ };
      t.match(await installRevision(world, revision), refused, 'unsigned');
      await add(world, otherKey);
      const anew = await installRevision(world, revision, { signature: signatureBy(otherKey) });
      t.match(anew, { ...refused, reason: new RegExp(`signed by key ${keyId}, which is revoked`) }, 'signed anew');
      const other = sampleRevision({ steps: { one: [] }, lock: 'b' });
      t.match(await installRevision(world, other, { signature }), { kind: 'not-allowed', code: 'publisher_revoked' });
      await moveLifecycle(world, 'disabled');
      t.match(await moveLifecycle(world, 'active'), { kind: 'not-allowed', code: 'publisher_revoked' });
      t.match(await installRevision(world, other), { kind: 'installed' }, 'other bytes, unsigned');
      t.match(await startMain(world), { kind: 'created' });
    },
  },

  {
    name: 'a run that cannot be cancelled keeps no other of a revoked key alive',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installSigned(t, world);
      const runIds: string[] = [];
      for (let count = 0; count < 3; count += 1) {
        world.clock.advance(1);
        runIds.push(await startRun(world));
      }
      await world.store.submit(operation(setAsideRun, { runId: runIds[0]!, code: 'damaged', summary: 'test' }));
      await revoke(world);
      const statuses = await Promise.all(runIds.map(async (runId) => (await rowsOf(world, runId)).run.status));
      t.same(statuses, ['running', 'cancelled', 'cancelled']);
    },
  },
];
