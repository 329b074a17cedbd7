// The run that a person means: its id, or how it begins where that is enough.
import { EdgeError } from '../core/errors.ts';
import { read } from '../protocol/reads.ts';
import type { ReadPort } from '../runtime/verification.ts';

/** As many candidates as are told where a beginning is not enough. */
const candidatesMax = 5;

/** Throws `not-found`, and `invalid` naming the candidates where several runs begin so. */
export async function findRunId(reads: ReadPort, text: string): Promise<string> {
  if (await reads.read(read('isRunKnown', { runId: text }))) {
    return text;
  }
  const runIds = await reads.read(read('runIds', { prefix: text, limit: candidatesMax }));
  const [only] = runIds;
  if (only === undefined) {
    throw new EdgeError('not-found', `no run has the id ${text}, or one that begins so`, { hint: 'see `runs list`' });
  }
  if (runIds.length > 1) {
    const some = runIds.length === candidatesMax ? `${runIds.join(', ')}, ...` : runIds.join(', ');
    const rule = `begins the ids of several runs: ${some}`;
    throw new EdgeError('invalid', `${text} ${rule}`, {
      hint: 'give more of the id',
      mistakes: [{ file: null, path: text, line: null, rule }],
    });
  }
  return only;
}

// UUIDv7: the first 48 bits are milliseconds, the next 12 bits count within one.
const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-/;

/** As much of an id as tells it from all others in practice: for tables. Commands take that too. */
export function shortRunId(runId: string): string {
  return beginningOf(runId, 'xxxxxxxx-xxxx-7xxx');
}

/** Its milliseconds alone: for the command to type next. A command refuses the beginning of several ids. */
export function hintRunId(runId: string): string {
  return beginningOf(runId, 'xxxxxxxx-xxxx');
}

function beginningOf(runId: string, shape: string): string {
  return uuidPattern.test(runId) ? runId.slice(0, shape.length) : runId;
}
