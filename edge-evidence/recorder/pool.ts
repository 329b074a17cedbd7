// Work for several threads: judging disks is mostly computing, and each of them has a core of its own.
import { Worker } from 'node:worker_threads';
import { EvidenceError } from '../operation.ts';

/** What a thread answers to one task. */
export type Reply<R> = { readonly result: R } | { readonly error: string };

const threads = 2;

/**
 * Results in the order of the tasks. The thread's file answers each message with a `Reply`; a task that fails ends all.
 */
export async function runInThreads<T, R>(file: string, tasks: readonly T[], note: (result: R) => void): Promise<R[]> {
  const results: R[] = [];
  const entries = tasks.entries();
  const work = async () => {
    const worker = new Worker(file);
    try {
      for (const [index, task] of entries) {
        results[index] = await ask<T, R>(worker, task);
        note(results[index]);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(threads, tasks.length) }, work));
  return results;
}

function ask<T, R>(worker: Worker, task: T): Promise<R> {
  return new Promise((resolve, reject) => {
    worker.once('error', reject);
    worker.once('message', (reply: Reply<R>) => {
      worker.off('error', reject);
      if ('error' in reply) {
        reject(new EvidenceError(reply.error));
      } else {
        resolve(reply.result);
      }
    });
    worker.postMessage(task);
  });
}
