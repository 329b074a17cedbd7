// What is asked of a holder as a process, not of its runs: what it says of itself, and that it ends. Owns the two
// requests; what is made of the answers is the command's.
import { limits } from '../core/limits.ts';
import type { OnStop } from '../runtime/settings.ts';
import type { HolderStatus, StopOutcome } from './routes.ts';
import { readDocument, sendRequest } from './wire.ts';

/** Throws as the verbs of a socket client do; `unavailable` also for a holder that says nothing for 5 s. */
export async function askStatus(socketPath: string): Promise<HolderStatus> {
  const patienceMs = limits.turnRetryMsMax;
  const request = { socketPath, target: '/v1/status', body: null, lookUp: null, patienceMs, signal: null };
  return (await readDocument(await sendRequest(request), null)) as HolderStatus;
}

/** Answers as soon as the holder knows; it has not ended by then. Asking twice does no harm. */
export async function askToStop(socketPath: string, onStop: OnStop | null): Promise<StopOutcome> {
  const lookUp = 'see `status`';
  const patienceMs = limits.turnRetryMsMax;
  const request = { socketPath, target: '/v1/stop', body: { onStop }, lookUp, patienceMs, signal: null };
  return (await readDocument(await sendRequest(request), lookUp)) as StopOutcome;
}
