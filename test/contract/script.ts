// Random scripts of operations for the differential test: drawn from a seed and from what the runs are by now, so that
// most of them do something.
import type { Random } from '../../edge-evidence/random.ts';
import type { AttemptFacts } from '../../src/core/completion.ts';
import { newsTypes } from '../../src/core/events.ts';
import { derivePublisherKeyId } from '../../src/core/ids.ts';
import { normalizePlan, type Plan } from '../../src/core/plan.ts';
import type { RunRows } from '../../src/core/records.ts';
import { admit, start } from '../../src/protocol/admit.ts';
import { advance } from '../../src/protocol/advance.ts';
import { type AttemptPlace, complete, observeAttempt, requestStop, startAttempt } from '../../src/protocol/attempt.ts';
import { cancel, converge } from '../../src/protocol/cancel.ts';
import { cancelCondemned } from '../../src/protocol/condemned.ts';
import { recordNews } from '../../src/protocol/news.ts';
import { changeLifecycle, install, quarantine } from '../../src/protocol/package.ts';
import { changeSetting } from '../../src/protocol/package-setting.ts';
import { type Operation, operation } from '../../src/protocol/protocol.ts';
import { addPublisher, revokePublisher } from '../../src/protocol/publisher.ts';
import { retry } from '../../src/protocol/retry.ts';
import { clearSetAside, setAsideRun } from '../../src/protocol/set-aside.ts';
import { attemptAdmission, exitZero, packageName, projectId, reseal, sampleRevision } from './world.ts';

/** What a script knows of the world when it draws its next step. */
export type Sight = {
  readonly random: Random;
  readonly runs: readonly RunRows[];
  readonly plans: readonly Plan[];
};

/** One or several operations at the same moment; or time that goes on. */
export type ScriptStep = { readonly operations: readonly Operation[] } | { readonly advanceMs: number };

type Draw = (sight: Sight) => readonly Operation[];

const texts = ['plain', 'ünï ✓ 密', "it's; --", '\u0000\uf8ff', '', 'long '.repeat(100)] as const;
const keys = ['ab', 'cd'].map((byte) => byte.repeat(32));
const requestedBy = 'script';
const place = { projectId, packageName };

const one = <O>(made: Operation<O>): readonly Operation[] => [made as Operation];

const drawInstall: Draw = ({ random }) => {
  const count = random.between(1, 5);
  const names = ['a', 'b', 'c', 'd', 'e'].slice(0, count);
  const steps = Object.fromEntries(
    names.map((name, index) => [name, names.slice(0, index).filter(() => random.chance(0.5))]),
  );
  const on = random.pick([['failed'], ['lost', 'timed_out'], ['failed', 'lost', 'timed_out']] as const);
  const policy = { limit: random.between(0, 2), backoffMs: 5_000, factor: 2, maxMs: 60_000, on: [...on] };
  const env = random.chance(0.4)
    ? { TOKEN: { setting: 'token', default: random.chance(0.5) ? 'fallback' : null } }
    : {};
  const revision = sampleRevision({
    steps,
    task: { retry: policy, env, enabled: random.chance(0.95) },
    workflow: {
      timeoutMs: random.chance(0.3) ? 600_000 : null,
      concurrency: random.chance(0.2) ? 1 : null,
      enabled: random.chance(0.95),
    },
    lock: random.pick(['a', 'b', 'c', 'd', 'e', 'f']),
  });
  const publicKey = random.pick(keys);
  const signature = random.chance(0.4)
    ? { keyId: derivePublisherKeyId(publicKey), publicKey, signature: '5a'.repeat(64) }
    : null;
  const allowUnsigned = random.chance(0.9);
  return one(operation(install, { projectId, revision, files: [], signature, allowUnsigned }));
};

const drawStart: Draw = ({ random }) => {
  const idempotencyKey = random.chance(0.5) ? `key-${random.between(1, 6)}` : null;
  const workflowId = random.chance(0.95) ? 'main' : 'other';
  const input = { ...place, workflowId, idempotencyKey, requestedBy };
  return one(operation(start, input));
};

const drawAdmit: Draw = ({ random, plans }) => {
  if (plans.length === 0) {
    return [];
  }
  const plan = random.pick(plans);
  const altered = random.chance(0.2) ? normalizePlan(reseal(plan, { planId: `${plan.planId}x` })) : plan;
  return one(operation(admit, { plan: altered, requestedBy }));
};

const drawAttempt: Draw = ({ random, runs }) => {
  const rows = pickRun(random, runs);
  const steps = [...(rows?.steps.values() ?? [])];
  const ready = steps.filter(({ status }) => status === 'ready');
  if (rows === null || steps.length === 0) {
    return [];
  }
  const step = random.pick(ready.length > 0 && random.chance(0.9) ? ready : steps);
  return one(attemptAdmission({ runId: rows.run.id, stepRunId: step.id }, random.between(0, 1)));
};

const drawAttemptStep: Draw = ({ random, runs }) => {
  const rows = pickRun(random, runs);
  const attempts = [...(rows?.attempts.values() ?? [])];
  const live = attempts.filter(({ finishedAtMs }) => finishedAtMs === null);
  if (attempts.length === 0) {
    return [];
  }
  const attempt = random.pick(live.length > 0 && random.chance(0.9) ? live : attempts);
  const { runId, stepRunId, id: attemptId } = attempt;
  const where = { runId, stepRunId, attemptId };
  if (attempt.status === 'claimed' && random.chance(0.8)) {
    return one(operation(startAttempt, where));
  }
  const choices = [
    () => operation(observeAttempt, where) as Operation,
    () => operation(requestStop, { ...where, reason: random.pick(['timeout', 'shutdown'] as const) }) as Operation,
    ...[1, 2, 3, 4].map(() => () => drawCompletion(random, where)),
    () => operation(startAttempt, where) as Operation,
  ];
  // Several at once: they share a turn of one store, and come one after the other in the other.
  return Array.from({ length: random.chance(0.3) ? random.between(2, 4) : 1 }, () => random.pick(choices)());
};

/** Sometimes as if the process had died before the frontier pass that follows. */
function drawCompletion(random: Random, where: AttemptPlace): Operation {
  const sound = operation(complete, { ...where, facts: drawFacts(random) }) as Operation;
  return random.chance(0.8)
    ? sound
    : { ...sound, decide: (rows, circumstances) => ({ ...sound.decide(rows, circumstances), follow: [] }) };
}

function drawFacts(random: Random): AttemptFacts {
  const exitCode = random.chance(0.8) ? 0 : random.between(1, 255);
  const errorSummary = random.chance(0.5) ? random.pick(texts) : null;
  return random.pick<AttemptFacts>([
    { ...exitZero, exitCode, isStopped: random.chance(0.3), note: errorSummary },
    { ...exitZero, exitCode: null, signal: 'SIGKILL', outputBytes: 2 ** 40, outputTruncated: true },
    { ...exitZero, exitCode },
    { kind: 'withdrawn' },
    { kind: 'unstarted', errorSummary: random.pick(texts) },
    { kind: 'lost', errorSummary },
    { kind: 'spawn-failed', errorCode: 'ENOENT', errorSummary: random.pick(texts) },
  ]);
}

const drawRunStep: Draw = ({ random, runs }) => {
  const rows = pickRun(random, runs);
  if (rows === null) {
    return [];
  }
  const { id: runId, version } = rows.run;
  const attemptId = [...rows.attempts.keys()].at(-1) ?? 'none';
  const news = { runId, attemptId, type: random.pick(newsTypes), version, summary: random.pick(texts) };
  const reason = random.pick(['user', 'policy', 'reconcile', 'timeout'] as const);
  const key = random.chance(0.5) ? `retry-${random.between(1, 3)}` : null;
  return random.pick([
    () => one(operation(cancel, { runId, reason, requestedBy })),
    () => one(operation(converge, { runId })),
    () => one(operation(advance, { runId })),
    () => one(operation(recordNews, news as Parameters<typeof recordNews.load>[0])),
    () => one(operation(retry, { projectId, runId, idempotencyKey: key, requestedBy })),
    () => one(operation(setAsideRun, { runId, code: 'damaged', summary: random.pick(texts) })),
    () => one(operation(clearSetAside, { runId })),
  ])();
};

const drawPackageStep: Draw = ({ random }) => {
  const reason = random.pick(texts);
  const publicKey = random.pick(keys);
  const keyId = derivePublisherKeyId(publicKey);
  const value = random.chance(0.7) ? random.pick(texts) : null;
  const salt = random.pick(['1', '2', '3']).repeat(32);
  const to = random.pick(['active', 'disabled', 'active', 'disabled', 'uninstalled'] as const);
  return random.pick([
    () => one(operation(changeLifecycle, { ...place, to, reason: random.chance(0.5) ? reason : null })),
    () => one(operation(changeSetting, { ...place, name: random.pick(['token', 'other']), value, salt })),
    () => one(operation(addPublisher, { publicKey })),
    () => one(operation(addPublisher, { publicKey })),
    () => (random.chance(0.3) ? one(operation(revokePublisher, { projectId, keyId, reason, requestedBy })) : []),
    () => (random.chance(0.3) ? one(operation(quarantine, { ...place, reason, requestedBy })) : []),
    () => one(operation(cancelCondemned, { after: null, requestedBy })),
  ])();
};

function pickRun(random: Random, runs: readonly RunRows[]): RunRows | null {
  const running = runs.filter(({ run }) => run.status === 'running');
  const among = running.length > 0 && random.chance(0.9) ? running : runs;
  return among.length === 0 ? null : random.pick(among);
}

const weights: readonly (readonly [number, Draw])[] = [
  [1.2, drawInstall],
  [3, drawStart],
  [2, drawAdmit],
  [8, drawAttempt],
  [20, drawAttemptStep],
  [5, drawRunStep],
  [3, drawPackageStep],
];
const weightSum = weights.reduce((sum, [weight]) => sum + weight, 0);

/** The next step of a script. The first ones install something. */
export function drawStep(sight: Sight, index: number): ScriptStep {
  const { random } = sight;
  if (index === 0) {
    return { operations: drawInstall(sight) };
  }
  if (random.chance(0.12)) {
    // A clock may be set back.
    return { advanceMs: random.chance(0.1) ? -60_000 : random.pick([1, 1_000, 5_000, 70_000, 700_000]) };
  }
  let left = random.fraction() * weightSum;
  const [, draw] =
    weights.find(([weight]) => {
      left -= weight;
      return left < 0;
    }) ?? weights[0]!;
  return { operations: draw(sight) };
}
