// What clients and operators ask of the runtime in a simulation, with names and moments drawn from its seed.
import type { Random } from '../../edge-evidence/random.ts';
import { sha256 } from '../../src/core/hash.ts';
import { derivePublisherKeyId } from '../../src/core/ids.ts';
import { buildPlan } from '../../src/core/plan.ts';
import { install } from '../../src/protocol/package.ts';
import { changeSetting } from '../../src/protocol/package-setting.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { addPublisher, revokePublisher } from '../../src/protocol/publisher.ts';
import { read } from '../../src/protocol/reads.ts';
import type { RunModel } from './model.ts';
import { drawPackage } from './packages.ts';
import type { World } from './world.ts';

const projectId = 'local';
const packageNames = ['alpha', 'beta'] as const;
const publicKey = 'ab'.repeat(32);
const publisher = { keyId: derivePublisherKeyId(publicKey), publicKey, signature: 'cd'.repeat(64) };
const pendingMax = 256;

export type Action = (world: World, random: Random) => void | Promise<void>;

export const installPackage: Action = (world, random) => {
  const name = random.pick(packageNames);
  const drawn = drawPackage(random, name, world.packages.size + 1);
  world.packages.set(drawn.revision.lockDigest, drawn);
  const isSigned = random.chance(0.4);
  const ask = {
    projectId,
    revision: drawn.revision,
    files: [],
    signature: isSigned ? publisher : null,
    allowUnsigned: true,
  };
  world.ask(
    `install ${name}`,
    ({ store }) => store.submit(operation(install, ask)),
    ({ kind }) => world.count(`install: ${kind}`),
  );
};

export const start: Action = (world, random) => {
  const isUsed = world.known.size > 0 && random.chance(0.3);
  const key = isUsed ? random.pick([...world.known.keys()]) : random.chance(0.6) ? `key-${random.between(1, 8)}` : null;
  const name = key?.startsWith('plan') === true ? null : key;
  const known = [...world.packages.values()].flatMap(({ name: owner, workflows }) =>
    [...workflows.keys()].map((id) => [owner, id]),
  );
  const [packageName = '', workflowId = ''] = random.chance(0.9) ? random.pick(known) : ['alpha', 'flow-9'];
  const what = `${packageName}/${workflowId}`;
  remember(world, name);
  const isMeant = (model: RunModel) => `${model.packageName}/${model.rule.id}` === what;
  const request = { packageName, workflowId, idempotencyKey: name, requestedBy: 'simulation' };
  world.ask(
    `start ${what} with ${name}`,
    ({ runtime }) => runtime.start(request),
    (outcome) => world.judgeStart({ name, isMeant }, outcome),
  );
};

function remember({ known }: World, name: string | null): void {
  if (name !== null && !known.has(name)) {
    known.set(name, null);
  }
}

/** Several at once, so that they share a turn. */
export const startMany: Action = async (world, random) => {
  for (let count = random.between(2, 5); count > 0; count -= 1) {
    await start(world, random);
  }
};

const plans = new WeakMap<World, unknown[]>();

export const admit: Action = async (world, random) => {
  const made = plans.get(world) ?? [];
  plans.set(world, made);
  const head = await headOf(world, random.pick(packageNames));
  if (head !== null && (made.length === 0 || random.chance(0.6))) {
    const { target } = head.installation;
    const planned = buildPlan({
      planId: `plan-${made.length}`,
      runId: `run-${made.length}`,
      target,
      publicationDigest: head.publication.publicationDigest,
      revision: head.revision,
      workflowId: head.revision.workflows[0]?.id ?? '',
      nowMs: world.time.now().wallMs,
    });
    if ('plan' in planned) {
      made.push(planned.plan);
    }
  }
  if (made.length > 0) {
    const index = random.between(0, made.length - 1);
    const request = { plan: made[index], requestedBy: 'simulation' };
    world.ask(
      `admit plan-${index}`,
      ({ runtime }) => runtime.admit(request),
      (outcome) => world.judgeStart({ name: `plan-${index}`, isMeant: () => true }, outcome),
    );
  }
};

async function headOf(world: World, packageName: string) {
  const asked = world.process?.store.read(read('package', { projectId, packageName })).catch(() => null) ?? null;
  let head: Awaited<typeof asked> = null;
  void asked?.then((answer) => {
    head = answer;
  });
  await world.settle();
  return head as Awaited<typeof asked>;
}

export function pickRun(world: World, random: Random, isWanted: (status: string) => boolean): string | null {
  const runIds = [...world.witness.models.values()].filter(({ status }) => isWanted(status)).map(({ runId }) => runId);
  return runIds.length === 0 ? null : random.pick(runIds);
}

export const cancel: Action = (world, random) => {
  const runId = pickRun(world, random, (status) => status === 'running' || random.chance(0.2));
  const model = world.witness.models.get(runId ?? '');
  if (runId === null || model === undefined) {
    return;
  }
  const isRunning = [...model.attempts.values()].some(({ status }) => status === 'starting' || status === 'running');
  world.count(isRunning ? 'cancel raced with a command' : 'cancel of what waits');
  world.ask(
    `cancel ${runId}`,
    ({ runtime }) => runtime.cancel({ runId, requestedBy: 'simulation' }),
    (outcome) => world.judgeCancel(runId, outcome),
  );
};

export const retry: Action = (world, random) => {
  const runId = pickRun(world, random, (status) => status !== 'running' || random.chance(0.1));
  if (runId !== null) {
    const name = random.chance(0.5) ? `retry-${random.between(1, 4)}` : null;
    const what = `retry of ${runId}`;
    remember(world, name);
    const isMeant = (model: RunModel) => model.retryOfRunId === runId;
    const request = { runId, idempotencyKey: name, requestedBy: 'simulation' };
    world.ask(
      `${what} with ${name}`,
      ({ runtime }) => runtime.retry(request),
      (outcome) => world.judgeStart({ name, isMeant }, outcome),
    );
  }
};

export const changeLifecycle: Action = (world, random) => {
  const packageName = random.pick(packageNames);
  const to = random.pick(['disabled', 'active', 'active', 'uninstalled'] as const);
  world.ask(
    `${packageName} becomes ${to}`,
    ({ runtime }) => runtime.changeLifecycle({ packageName, to, reason: null }),
    ({ kind }) => world.count(`${to}: ${kind}`),
  );
};

export const quarantine: Action = (world, random) => {
  const packageName = random.pick(packageNames);
  world.ask(
    `quarantine ${packageName}`,
    ({ runtime }) => runtime.quarantine({ packageName, reason: 'drawn', requestedBy: 'simulation' }),
    ({ kind }) => world.count(`quarantine: ${kind}`),
  );
};

export const changeTrust: Action = (world, random) => {
  if (random.chance(0.6)) {
    world.ask(
      'add publisher',
      ({ store }) => store.submit(operation(addPublisher, { publicKey })),
      ({ kind }) => world.count(`publisher: ${kind}`),
    );
  } else {
    const revocation = { projectId, keyId: publisher.keyId, reason: 'drawn', requestedBy: 'simulation' };
    world.ask(
      'revoke publisher',
      ({ store }) => store.submit(operation(revokePublisher, revocation)),
      ({ kind }) => world.count(`revocation: ${kind}`),
    );
  }
};

export const set: Action = (world, random) => {
  const packageName = random.pick(packageNames);
  const value = random.chance(0.7) ? `${random.between(1, 9)}` : null;
  const change = { projectId, packageName, name: 'token', value, salt: sha256(`${random.fraction()}`).slice(0, 32) };
  world.ask(
    `set token of ${packageName}`,
    ({ store }) => store.submit(operation(changeSetting, change)),
    ({ kind }) => world.count(`setting: ${kind}`),
  );
};

export const follow: Action = (world, random) => {
  const runId = pickRun(world, random, () => true);
  if (runId === null) {
    return;
  }
  const iterate = async (events: AsyncIterable<{ readonly sequence: number }>) => {
    let last = 0;
    for await (const { sequence } of events) {
      if (sequence !== last + 1) {
        world.witness.complain(`a follower of ${runId} is told ${sequence} after ${last}`);
      }
      last = sequence;
    }
    return last;
  };
  world.ask(
    `follow ${runId}`,
    ({ runtime }) => iterate(runtime.follow(runId)),
    (last) => {
      const { damaged, models } = world.witness;
      world.count('follower came to the end');
      if (!damaged.has(runId) && models.get(runId)?.status === 'running') {
        world.witness.complain(`a follower of ${runId} is told its end at ${last}, and it goes on`);
      }
    },
  );
};

/** More than the inbox takes. */
export const flood: Action = async (world) => {
  const { process } = world;
  if (process === null) {
    return;
  }
  const accepted = Math.max(0, pendingMax - process.pendingCount());
  let refused = 0;
  world.note('a flood of reads');
  for (let count = 0; count < pendingMax + 44; count += 1) {
    process.store.read(read('runCounts', {})).catch(() => {
      refused += 1;
    });
  }
  await world.settle(0);
  if (!process.isDead && refused !== pendingMax + 44 - accepted) {
    world.witness.complain(`of ${pendingMax + 44} reads ${refused} are refused, ${accepted} should have been accepted`);
  }
  world.count('flood');
};
