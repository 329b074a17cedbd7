import t from 'tap';
import { buildAdmission } from '../../src/core/admission.ts';
import { canonicalJson, utf8Bytes } from '../../src/core/canonical-json.ts';
import { limits } from '../../src/core/limits.ts';
import { taskRefOf } from '../../src/core/plan.ts';
import { sealStepRun } from '../../src/core/record-seal.ts';
import { admitStory, admittedAtMs, chainOf, planOf, sampleRequest, sealPlan, stepOf } from './samples.ts';

// By hand from the design: the bounds that it names, in bytes, milliseconds or counts.
const named = {
  identifierBytesMax: 128,
  portableIdBytesMax: 36,
  resourceIdBytesMax: 63,
  packageNameBytesMax: 63,
  titleCharactersMax: 200,
  counterMax: 2_147_483_647,
  stepsMax: 128,
  workflowsMax: 128,
  tasksMax: 512,
  planBytesMax: 262_144,
  receiptBytesMax: 262_144,
  stepRunBytesMax: 16_384,
  eventPayloadBytesMax: 16_384,
  errorSummaryBytesMax: 2_048,
  manifestBytesMax: 1_048_576,
  pageMax: 64,
  operationsPendingMax: 256,
  attemptsPerStepMax: 64,
  newsPerRunMax: 8,
  outputDrainMsMax: 2_000,
  taskTimeoutMsDefault: 3_600_000,
  graceMsDefault: 10_000,
  unstartedBackoffMsMin: 1_000,
  unstartedBackoffMsMax: 60_000,
  admissionKeyMsMax: 2_592_000_000,
};

t.test('every bound that the design names has its value', async (t) => {
  t.match(limits, named);
});

t.test('every bound is a safe integer; only nice values may be below zero', async (t) => {
  for (const [name, value] of Object.entries(limits)) {
    t.ok(Number.isSafeInteger(value) && (value > 0 || name === 'niceMin'), name);
  }
});

t.test('a longest of each kind is not shorter than a shortest', async (t) => {
  const all: Readonly<Record<string, number>> = limits;
  for (const [name, min] of Object.entries(all).filter(([key]) => key.endsWith('Min'))) {
    t.ok(min <= (all[name.replace(/Min$/, 'Max')] ?? Infinity), name);
  }
  t.ok(limits.retryBackoffMsDefault <= limits.retryBackoffMsMaxDefault);
  t.ok(limits.taskTimeoutMsDefault <= limits.durationMsMax);
  t.ok(limits.graceMsDefault <= limits.durationMsMax);
});

t.test('a timer holds every duration and every alarm', async (t) => {
  t.ok(limits.durationMsMax <= 2 ** 31 - 1);
  t.ok(limits.alarmMsMax <= 2 ** 31 - 1);
});

t.test('the retries that a task may ask for fit the attempts that a step may have', async (t) => {
  t.ok(limits.retryLimitMax + 1 < limits.attemptsPerStepMax, 'and leave room for a start that was taken back');
});

t.test('a turn and a page take no more than the inbox holds', async (t) => {
  t.ok(limits.turnOperationsMax <= limits.operationsPendingMax);
  t.ok(limits.pageMax <= limits.operationsPendingMax);
  t.ok(limits.busyTimeoutMs < limits.turnRetryMsMax);
});

t.test('the reference of any task is an identifier', async (t) => {
  const longest = taskRefOf('f'.repeat(64), 't'.repeat(limits.resourceIdBytesMax));
  t.ok(longest.length <= limits.identifierBytesMax);
});

t.test('the receipt of the largest plan is within its bound', async (t) => {
  const shape = Object.fromEntries(Object.keys(chainOf(limits.stepsMax)).map((key) => [key.padEnd(63, 'x'), []]));
  const { planDigest: _, ...contents } = planOf(shape, 'r'.repeat(36));
  const plan = sealPlan({ ...contents, planId: 'p'.repeat(36), workflowId: 'w'.repeat(63) });
  const { receipt, rows } = buildAdmission(plan, sampleRequest, Number.MAX_SAFE_INTEGER);
  t.equal(rows.steps.size, limits.stepsMax);
  t.ok(utf8Bytes(canonicalJson(receipt)) <= limits.receiptBytesMax);
});

t.test('a step run with every field as long as it may be is within its bound', async (t) => {
  const { digest: _, ...step } = stepOf(admitStory(planOf({ a: [] })), 'a');
  const timeMs = Number.MAX_SAFE_INTEGER;
  const span = { startMs: timeMs, startUptimeMs: timeMs, bootId: 'b'.repeat(128), lengthMs: timeMs };
  const longest = sealStepRun({
    ...step,
    ...{ stepKey: 'k'.repeat(63), taskRef: 'r'.repeat(128), kind: 'subworkflow', status: 'waiting_approval' },
    ...{ version: limits.counterMax, attemptCount: limits.counterMax, due: span, resultCode: 'c'.repeat(128) },
    ...{ readyAtMs: timeMs, startedAtMs: timeMs, finishedAtMs: timeMs, createdAtMs: timeMs, updatedAtMs: timeMs },
    // Control characters take six bytes of canonical text for one of the summary.
    ...{ errorSummary: '\u0001'.repeat(limits.errorSummaryBytesMax) },
  });
  t.ok(admittedAtMs < timeMs);
  t.ok(utf8Bytes(canonicalJson(longest)) <= limits.stepRunBytesMax);
});
