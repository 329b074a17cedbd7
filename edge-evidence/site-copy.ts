// A prepared site, kept beside the place where it is used: paths stay the same, so the same state can be had again as
// often as it is needed.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { EvidenceError } from './operation.ts';
import { findProcessesOf, killProcess } from './processes.ts';

/** Everything below `from` becomes `to`, which is replaced: with FIFOs and sockets, which Node does not copy. */
export function copyTree(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true, maxRetries: 3 });
  const { status, stderr } = spawnSync('cp', ['-a', from, to], { encoding: 'utf8' });
  if (status !== 0) {
    throw new EvidenceError(`${from} cannot be copied: ${stderr}`);
  }
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
