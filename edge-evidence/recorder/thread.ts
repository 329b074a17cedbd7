// The other side of pool.ts: a thread that answers one task after another.
import { parentPort } from 'node:worker_threads';
import type { Reply } from './pool.ts';

/** Answers every message that this thread gets. */
export function answerTasks<T, R>(work: (task: T) => Promise<R>): void {
  parentPort?.on('message', async (task: T) => {
    parentPort?.postMessage(await answer(work, task));
  });
}

async function answer<T, R>(work: (task: T) => Promise<R>, task: T): Promise<Reply<R>> {
  try {
    return { result: await work(task) };
  } catch (error) {
    return { error: error instanceof Error ? `${error.stack}` : `${error}` };
  }
}
