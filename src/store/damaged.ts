// What every store says of evidence that does not fit.
import { EdgeError } from '../core/errors.ts';

export type DamageOptions = { readonly runId?: string; readonly cause?: unknown };

/** Evidence that is missing or altered. `where` names the table and what of it; nothing is repaired. */
export function damaged(where: string, what: string, { runId, cause }: DamageOptions = {}): EdgeError {
  return new EdgeError('damaged', runId === undefined ? `${where} ${what}` : `run ${runId}: ${where} ${what}`, {
    hint: runId === undefined ? 'run `doctor`; restore a backup' : `run \`verify ${runId}\` to see what differs`,
    cause,
    runId,
  });
}
