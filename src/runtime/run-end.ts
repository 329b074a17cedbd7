// The end of a run, as whoever follows its history by reading notices it.
import { isTerminalRun } from '../core/states.ts';
import { read } from '../protocol/reads.ts';
import type { ReadPort } from './verification.ts';

/** Whether nothing comes after an event: the run has ended with it, was set aside, or is not there. */
export async function hasEnded(reads: ReadPort, runId: string, last: number): Promise<boolean> {
  const rows = await reads.read(read('run', { runId }));
  const isAside = (await reads.read(read('setAside', { runId }))) !== null;
  return rows === null || isAside || (isTerminalRun(rows.run.status) && rows.run.eventSequence === last);
}
