import t from 'tap';
import {
  type AdmissionEvidence,
  admissionDrafts,
  buildAdmission,
  buildReceipt,
  type Receipt,
  readReceipt,
  verifyAdmission,
} from '../../src/core/admission.ts';
import { canonicalJson } from '../../src/core/canonical-json.ts';
import { digest, digestLabels } from '../../src/core/digest.ts';
import type { RunEvent } from '../../src/core/events.ts';
import { normalizePlan, type Plan } from '../../src/core/plan.ts';
import { isIntact } from '../../src/core/record-seal.ts';
import { admittedAtMs, chainOf, edgeErrorOf, planOf, sampleRequest, sealPlan } from './samples.ts';

const plan = planOf({ fetch: [], merge: ['fetch'] });
const bundle = buildAdmission(plan, sampleRequest, admittedAtMs);
const evidence: AdmissionEvidence = { plan, receipt: bundle.receipt, events: bundle.events };

const sealReceipt = (receipt: Receipt): Receipt => {
  const { receiptDigest: _, ...contents } = receipt;
  return { ...contents, receiptDigest: digest(digestLabels.receipt, contents) };
};

t.test(
  'a plan of n steps becomes n + 1 events: the admission, then its steps in the order of their keys',
  async (t) => {
    for (const size of [1, 2, 128]) {
      const chain = planOf(chainOf(size));
      const { events, rows } = buildAdmission(chain, sampleRequest, admittedAtMs);
      t.equal(events.length, size + 1);
      t.same(
        events.map(({ sequence }) => sequence),
        Array.from({ length: size + 1 }, (_, index) => index + 1),
      );
      t.same(
        events.map(({ type }) => type),
        ['workflow.admitted', ...Array(size).fill('step.created')],
      );
      t.same(
        events.slice(1).map(({ stepRunId }) => stepRunId),
        chain.steps.map(({ stepRunId }) => stepRunId),
      );
      t.equal(rows.run.version, size + 1);
      t.equal(rows.run.eventSequence, size + 1);
      t.equal(rows.steps.size, size);
      t.equal(rows.attempts.size, 0, 'no attempt is made');
    }
  },
);

t.test('the records of an admission are the golden ones (computed with Python)', async (t) => {
  const { rows, receipt } = bundle;
  const [fetch, merge] = plan.steps.map(({ stepRunId }) => rows.steps.get(stepRunId)!);
  t.equal(rows.run.historyDigest, '16028a5449a13c554d7624705c8c1295e9bca116c0c3d83a34b03779a1d36727');
  t.equal(rows.run.digest, '84f7586a3e67be984a459b0c707ab774008e2421d9a9913ae937fc0d509de6e8');
  t.equal(fetch!.digest, '471ddc21ff46ee1544514fc6fcd6fb31b2b613c2317dbf2502445f83b48df9c3');
  t.equal(fetch!.lastMutationId, 'mu_46e817c910e26941b3e1c929247dc47f');
  t.equal(merge!.digest, '67d6fa709f2467f629bf42752245cb6ac17364adc1168e866bdecf434a409cc2');
  t.equal(receipt.receiptDigest, '3213b55d7d3aeeced0b79df7bdbed7eb06e37a7b78f568199aee89a3197b9baf');
  t.same(
    bundle.events.map(({ id }) => id),
    [
      'ev_efdde583ec7367539af0d943f8ffcfe9',
      'ev_7d831d7cc05b699ac6d0009b2530f978',
      'ev_a6b00a2f0065a174858621a40a0648dc',
    ],
  );
});

t.test('the run of an admission says what the plan and the request say', async (t) => {
  const { run } = bundle.rows;
  t.match(run, {
    ...{ id: 'run-1', planId: 'plan-1', planDigest: plan.planDigest, projectId: 'default', packageName: 'net-watch' },
    ...{ workflowId: 'watch', generation: 3, publicationDigest: '4'.repeat(64), status: 'running' },
    ...{ triggerType: 'plugin_package_workflow', requestedBy: 'operator:root', idempotencyKey: 'key-1' },
    ...{ createdAtMs: admittedAtMs, startedAtMs: admittedAtMs, updatedAtMs: admittedAtMs, finishedAtMs: null },
    ...{ deadline: sampleRequest.deadline, cancelRequestedAtMs: null, cancelReason: null, errorCode: null },
  });
  t.ok(isIntact({ ...run }));
  t.ok([...bundle.rows.steps.values()].every((step) => isIntact({ ...step })));
});

t.test('the same plan, request and time give the same bundle; any other gives another receipt', async (t) => {
  t.equal(canonicalJson(buildAdmission(plan, sampleRequest, admittedAtMs).receipt), canonicalJson(bundle.receipt));
  t.same(buildAdmission(structuredClone(plan), { ...sampleRequest }, admittedAtMs), bundle);
  const { receiptDigest } = bundle.receipt;
  t.not(buildAdmission(plan, sampleRequest, admittedAtMs + 1).receipt.receiptDigest, receiptDigest);
  t.not(
    buildAdmission(plan, { ...sampleRequest, requestedBy: 'x' }, admittedAtMs).receipt.receiptDigest,
    receiptDigest,
  );
  t.not(buildAdmission(planOf({ fetch: [] }), sampleRequest, admittedAtMs).receipt.receiptDigest, receiptDigest);
});

t.test('drafts alone carry no time, number or id', async (t) => {
  for (const entry of admissionDrafts(plan, sampleRequest)) {
    t.notOk('id' in entry || 'sequence' in entry || 'createdAtMs' in entry);
  }
});

t.test('a receipt reads back as it was written, and one of a wrong shape is damaged', async (t) => {
  t.same(readReceipt(JSON.parse(canonicalJson(bundle.receipt))), bundle.receipt);
  for (const key of Object.keys(bundle.receipt)) {
    const { [key as keyof Receipt]: _, ...rest } = bundle.receipt;
    t.match(
      edgeErrorOf(() => readReceipt(rest)),
      { code: 'damaged', mistakes: [{ path: key, rule: 'is missing' }] },
    );
  }
  t.equal(edgeErrorOf(() => readReceipt({ ...bundle.receipt, extra: 1 })).code, 'damaged');
  t.equal(edgeErrorOf(() => readReceipt(null)).code, 'damaged');
});

t.test('untouched evidence verifies and answers the original receipt, each time', async (t) => {
  t.equal(verifyAdmission(evidence), bundle.receipt);
  t.same(verifyAdmission(structuredClone(evidence)), bundle.receipt);
  t.same(buildReceipt(plan, bundle.rows), bundle.receipt);
});

type Leaf = { readonly path: readonly string[]; readonly value: unknown };

function leavesOf(value: unknown, path: readonly string[] = []): readonly Leaf[] {
  const isTree = typeof value === 'object' && value !== null && Object.keys(value).length > 0;
  return isTree
    ? Object.entries(value).flatMap(([key, member]) => leavesOf(member, [...path, key]))
    : [{ path, value }];
}

/** A copy with one leaf changed to another value of its kind. */
function alter<T>(document: T, { path, value }: Leaf, replacement?: unknown): T {
  const copy = structuredClone(document);
  const parent = path.slice(0, -1).reduce<unknown>((node, key) => Reflect.get(node as object, key), copy) as object;
  const other = () => {
    switch (typeof value) {
      case 'string':
        return /^[0-9a-f]{64}$/.test(value) ? `${value[0] === '0' ? '1' : '0'}${value.slice(1)}` : `${value}x`;
      case 'number':
        return value + 1;
      case 'boolean':
        return !value;
      default:
        return Array.isArray(value) ? ['x'] : 'x';
    }
  };
  Reflect.set(parent, path.at(-1)!, replacement === undefined ? other() : replacement);
  return copy;
}

const damage = (altered: Partial<AdmissionEvidence>) => edgeErrorOf(() => verifyAdmission({ ...evidence, ...altered }));

t.test('every field of the receipt, altered, is damage, also with a digest that fits', async (t) => {
  for (const leaf of leavesOf(bundle.receipt)) {
    const receipt = alter(bundle.receipt, leaf);
    t.equal(damage({ receipt }).code, 'damaged', leaf.path.join('.'));
    if (leaf.path[0] !== 'receiptDigest') {
      t.equal(damage({ receipt: sealReceipt(receipt) }).code, 'damaged', `${leaf.path.join('.')}, sealed again`);
    }
  }
});

t.test('every field of every event, altered or nulled, is damage', async (t) => {
  for (const leaf of leavesOf(bundle.events)) {
    const name = leaf.path.join('.');
    t.equal(damage({ events: alter(bundle.events, leaf) }).code, 'damaged', name);
    if (leaf.value !== null) {
      t.equal(damage({ events: alter(bundle.events, leaf, null) }).code, 'damaged', `${name} → null`);
    }
  }
});

t.test('a plan that is another one, though sound in itself, is damage', async (t) => {
  const others = leavesOf(plan).map((leaf) => {
    const { planDigest: _, ...contents } = alter<Plan>(plan, leaf);
    return { name: leaf.path.join('.'), other: sealPlan(contents) };
  });
  const isSound = (other: Plan) => edgeErrorOf(() => normalizePlan(other)).message === 'nothing was thrown';
  const sound = others.filter(({ name, other }) => name !== 'planDigest' && isSound(other));
  t.ok(sound.length >= 12, 'most fields can be another and the plan still be one');
  for (const { name, other } of sound) {
    t.equal(damage({ plan: other }).code, 'damaged', name);
  }
  const renamed = planOf({ fetch: [], merge: ['fetch'] }, 'run-2');
  t.equal(damage({ plan: renamed }).code, 'damaged', 'a plan for another run');
});

t.test('events that are missing, too many or in another order are damage', async (t) => {
  const [admitted, first, second] = bundle.events as [RunEvent, RunEvent, RunEvent];
  const cases: readonly (readonly RunEvent[])[] = [
    ...[[], [admitted], [admitted, first], [first, second], [admitted, second]],
    ...[
      [admitted, second, first],
      [first, admitted, second],
      [admitted, first, first],
    ],
    [...bundle.events, second],
  ];
  for (const events of cases) {
    t.equal(damage({ events }).code, 'damaged', events.map(({ sequence }) => sequence).join(' '));
  }
});

t.test('damage names the run, and says what to do', async (t) => {
  const error = damage({ events: bundle.events.slice(0, 2) });
  t.match(error, { message: /plan plan-1: has 2 of 3 admission events/, hint: /verify run-1/ });
});
