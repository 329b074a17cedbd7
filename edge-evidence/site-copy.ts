// A prepared site, kept beside the place where it is used: paths stay the same, so the same state can be had again as
// often as it is needed.
import { execFile } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { findProcessesOf, killProcess } from './processes.ts';

const run = promisify(execFile);

/** Everything below `from`, FIFOs and modes included, becomes `to`, which is replaced. */
export async function copyTree(from: string, to: string): Promise<void> {
  rmSync(to, { recursive: true, force: true, maxRetries: 3 });
  mkdirSync(to, { recursive: true });
  await run('cp', ['-a', `${from}/.`, `${to}/`]);
}

/** Ends whoever names a folder, by id, then removes it. */
export function clearFolder(folder: string): void {
  findProcessesOf(folder).forEach(killProcess);
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Somebody who is tired of waiting finds nothing of ours afterwards. Answers what stops listening for that. */
export function clearWhenEnded(clear: () => void): () => void {
  const hear = (signal: NodeJS.Signals) => {
    clear();
    stopListening();
    process.kill(process.pid, signal);
  };
  const stopListening = () => void signals.forEach((signal) => void process.off(signal, hear));
  signals.forEach((signal) => void process.on(signal, hear));
  return stopListening;
}
