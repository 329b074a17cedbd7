// What a runtime of the drill does by itself: takes over what another left, and carries runs on beside others. It plays
// the executor: a command's end is known from its task.
import { setTimeout as sleep } from 'node:timers/promises';
import { EvidenceError } from '../operation.ts';
import { exitedWith, lostWith, taskOutcomes } from './package.ts';

export type Store = {
  submit(protocol: string, input: unknown): Promise<unknown>;
  read(request: { readonly name: string; readonly args: unknown }): Promise<unknown>;
  close(): Promise<void>;
};

export type StepPlace = { readonly runId: string; readonly stepRunId: string };
type Claimed = { readonly kind: string; readonly attemptId: string };
type Started = { readonly kind: string; readonly launch: { readonly taskId: string } };
type Context = { readonly attempts: readonly { readonly id: string; readonly status: string }[] };

const pageLength = 64;
const pauseMs = 20;
const insistTriesMax = 20;
/** Without anything to do, although runs are running: nobody carries them on. */
const idleRoundsMax = 1500;

/** How many steps it did, and how often another was faster. */
export type Worked = { readonly steps: number; readonly yielded: number };

export async function work(store: Store, isBackwards: boolean): Promise<Worked> {
  const worked = { steps: 0, yielded: 0 };
  for (let idleRounds = 0; idleRounds < idleRoundsMax; ) {
    const did = await workRound(store, isBackwards, worked);
    const { runningCount } = (await store.read({ name: 'runCounts', args: {} })) as { readonly runningCount: number };
    if (runningCount === 0) {
      return worked;
    }
    idleRounds = did ? 0 : idleRounds + 1;
    if (!did) {
      // Another one is at work on what is left.
      await sleep(pauseMs);
    }
  }
  throw new EvidenceError('runs are running, and there is nothing that could be done for them');
}

/** One look at everything that could be done; answers whether there was anything. */
async function workRound(
  store: Store,
  isBackwards: boolean,
  worked: { steps: number; yielded: number },
): Promise<boolean> {
  const args = { limit: pageLength, after: null };
  const { runIds } = (await store.read({ name: 'candidates', args })) as { readonly runIds: readonly string[] };
  for (const runId of runIds) {
    await insist(() => store.submit('advance', { runId }));
  }
  const { steps } = (await store.read({ name: 'readySteps', args })) as { readonly steps: readonly StepPlace[] };
  for (const { runId, stepRunId } of isBackwards ? steps.toReversed() : steps) {
    const isDone = await doStep(store, { runId, stepRunId });
    worked.steps += isDone ? 1 : 0;
    worked.yielded += isDone ? 0 : 1;
  }
  return runIds.length + steps.length > 0;
}

/** The database let another one commit first: nothing happened, so it is given again. */
async function insist<T>(act: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await act();
    } catch (error) {
      if ((error as { readonly code?: string }).code !== 'busy' || tries === insistTriesMax) {
        throw error;
      }
    }
  }
}

/** From the claim to the end of one attempt. False where another one has begun it. */
async function doStep(store: Store, place: StepPlace): Promise<boolean> {
  const claim = { ...place, handlerNames: [], busyOfWorkflow: 0 };
  const claimed = (await insist(() => store.submit('admitAttempt', claim))) as Claimed;
  return claimed.kind === 'claimed' && finish(store, { ...place, attemptId: claimed.attemptId });
}

async function finish(store: Store, attempt: StepPlace & { readonly attemptId: string }): Promise<boolean> {
  const started = (await insist(() => store.submit('startAttempt', attempt))) as Started;
  if (started.kind !== 'started') {
    return false;
  }
  const facts = exitedWith(taskOutcomes[started.launch.taskId] ?? 1);
  await insist(() => store.submit('complete', { ...attempt, facts }));
  return true;
}

/**
 * Ends what a runtime that is gone has left: an attempt behind its start barrier is lost, one that was only claimed
 * begins now. Answers the ids of the lost ones. While nobody else works.
 */
export async function takeOver(store: Store): Promise<readonly string[]> {
  const steps = (await store.read({ name: 'activeSteps', args: { limit: 1000 } })) as readonly StepPlace[];
  const lost: string[] = [];
  for (const { runId, stepRunId } of steps) {
    const place = { runId, stepRunId };
    const { attempts } = (await store.read({ name: 'step', args: place })) as Context;
    for (const { id: attemptId, status } of attempts) {
      if (status === 'claimed') {
        await finish(store, { ...place, attemptId });
      } else if (status === 'starting' || status === 'running') {
        await store.submit('complete', { ...place, attemptId, facts: lostWith });
        lost.push(attemptId);
      }
    }
  }
  return lost;
}
