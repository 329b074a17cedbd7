// The runtime's own log: one line a fact, for an operator. Where lines go is the surface's choice.
import { isEdgeError } from '../core/errors.ts';

export type Log = (line: string) => void;

/** An error in one line: its code, what happened, and what to do next where that is known. */
export function describeError(error: unknown): string {
  if (isEdgeError(error)) {
    return `${error.code}: ${error.message}; ${error.hint}`;
  }
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
