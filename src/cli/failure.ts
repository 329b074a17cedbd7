// What goes wrong, as a command ends with it: one line for people, one object for programs, one exit code. Owns the
// exit codes that come from no error: refused outcomes and the ends of runs.
import { errorTable, isEdgeError, type Mistake } from '../core/errors.ts';
import type { RunStatus } from '../core/states.ts';
import { cutInput, neutralize } from './plain-text.ts';

export type Failure = {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly mistakes: readonly Mistake[];
  readonly exitCode: number;
};

/** `left`: what was followed goes on, as when SIGQUIT comes; nothing of it is known to be cancelled. */
export const exitCodes = { done: 0, usage: 2, refused: 3, damaged: 5, interrupted: 130, left: 131 } as const;

/**
 * How `run` and `workflow start --wait` end, by the end of their run. 124 and 130 are those of timeout(1) and a shell.
 */
export const runExitCodes: Readonly<Record<Exclude<RunStatus, 'running'>, number>> = {
  succeeded: 0,
  failed: 1,
  timed_out: 124,
  cancelled: 130,
};

/** An outcome that says no. Expected, so no error; the caller is told why and what to do. */
export function refusal(code: 'conflict' | 'not-allowed' | 'not-found', message: string, hint: string): Failure {
  return { code, message, hint, mistakes: [], exitCode: exitCodes.refused };
}

/** Any thrown value. What is no operating error is a defect, told in one line. */
export function failureOf(error: unknown): Failure {
  if (isEdgeError(error)) {
    const { code, message, hint, mistakes } = error;
    return { code, message, hint, mistakes, exitCode: errorTable[code].exitCode };
  }
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const hint = 'this is a defect of the program; QINGLONG_EDGE_DEBUG=1 shows where it is';
  return { code: 'internal', message, hint, mistakes: [], exitCode: errorTable.internal.exitCode };
}

/** `qinglong-edge: <code>: <what>; <what to do>`, and under it each mistake that the line does not tell already. */
export function failureLines({ code, message, hint, mistakes }: Failure): readonly string[] {
  const [only] = mistakes;
  const isTold = mistakes.length === 1 && only !== undefined && message.includes(only.rule);
  const what = [message, hint].filter((part) => part !== '').join('; ');
  const head = neutralize(`qinglong-edge: ${code}: ${what}`);
  return isTold ? [head] : [head, ...mistakes.map((mistake) => `  ${neutralize(mistakeLine(mistake))}`)];
}

// No legal name is as long. A name of a package that is too long stands in the path of every mistake below it.
const longName = /[^\s./[\]]{65,}/g;

/** `file:line: path rule`, as far as these are known. */
export function mistakeLine({ file, line, path, rule }: Mistake): string {
  const place = file === null ? '' : `${file}${line === null ? '' : `:${line}`}: `;
  return place + `${path === '' ? '' : `${path} `}${rule}`.replaceAll(longName, cutInput);
}

export function failureDocument({ code, message, hint, mistakes }: Failure): object {
  return { error: { code, message, hint, mistakes } };
}
