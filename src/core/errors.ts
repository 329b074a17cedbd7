// The closed table of operating errors. A row says how each surface reports the code; nothing else may invent one.
// Outcomes that a caller should expect (conflict, not-allowed, existing, …) are values, not errors.

type ErrorRow = {
  readonly exitCode: number;
  readonly httpStatus: number;
  /** Whether the same request may succeed later without anything being changed. */
  readonly isRetryable: boolean;
};

export const errorTable = {
  invalid: { exitCode: 2, httpStatus: 400, isRetryable: false },
  'not-found': { exitCode: 3, httpStatus: 404, isRetryable: false },
  busy: { exitCode: 4, httpStatus: 503, isRetryable: true },
  full: { exitCode: 4, httpStatus: 507, isRetryable: true },
  unavailable: { exitCode: 4, httpStatus: 503, isRetryable: true },
  damaged: { exitCode: 5, httpStatus: 500, isRetryable: false },
  'unknown-outcome': { exitCode: 4, httpStatus: 503, isRetryable: true },
  // A defect of this program. 70 is EX_SOFTWARE of sysexits.h.
  internal: { exitCode: 70, httpStatus: 500, isRetryable: false },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errorTable;

/** One mistake in something that a person wrote: where it is, and which rule it breaks. */
export type Mistake = {
  readonly file: string | null;
  /** Path of the offending field, such as `tasks.probe.run[0]`; empty for the document itself. */
  readonly path: string;
  /** Counted from 1; null where the format gives none. */
  readonly line: number | null;
  readonly rule: string;
};

export type EdgeErrorOptions = {
  readonly hint: string;
  readonly cause?: unknown;
  readonly mistakes?: readonly Mistake[];
  readonly runId?: string | undefined;
};

/**
 * The one operating error. Told apart by `code`, never by class: several bundles may meet in one process.
 * `message` says what happened, `hint` what to do next; `mistakes` lists everything wrong in refused input,
 * `runId` is the run whose evidence is damaged.
 */
export class EdgeError extends Error {
  readonly code: ErrorCode;
  readonly hint: string;
  readonly mistakes: readonly Mistake[];
  readonly runId: string | null;

  constructor(code: ErrorCode, message: string, options: EdgeErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'EdgeError';
    this.code = code;
    this.hint = options.hint;
    this.mistakes = options.mistakes ?? [];
    this.runId = options.runId ?? null;
  }
}

export function isEdgeError(value: unknown): value is EdgeError {
  return (
    value instanceof Error &&
    value.name === 'EdgeError' &&
    'code' in value &&
    Object.hasOwn(errorTable, `${value.code}`)
  );
}

/** A broken invariant: a defect of this program. The process stops and recovery starts from what is durable. */
export class InvariantError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'InvariantError';
  }
}

export function assert(condition: unknown, invariant: string): asserts condition {
  if (!condition) {
    throw new InvariantError(`broken invariant: ${invariant}`);
  }
}

/**
 * Stops the process, from where nothing catches it, if this is a broken invariant: what is durable is right, and
 * recovery starts from there; what is in memory is not to be trusted any more.
 */
export function stopOnDefect(error: unknown): void {
  if (error instanceof InvariantError) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
