// In-process handlers: the second executor. A handler is a function of the embedder; its attempt has no process, no
// directory and no receipt, so one that was running when the process died is lost.
import type { AttemptFacts } from '../core/completion.ts';
import { limits } from '../core/limits.ts';
import { cutText } from '../core/text.ts';

export type HandlerContext = {
  readonly runId: string;
  readonly attemptId: string;
  readonly attemptNumber: number;
  readonly stepKey: string;
  readonly packageName: string;
  readonly taskId: string;
  /** What the task's `env` gives, with this device's settings in it. */
  readonly env: Readonly<Record<string, string>>;
  /** Aborted at a timeout, a cancel or a stop. A handler that ignores it keeps its attempt running. */
  readonly signal: AbortSignal;
};

export type Handler = (context: HandlerContext) => unknown;

/** By `package/task`. */
export type Handlers = Readonly<Record<string, Handler>>;

export type HandlerExecutor = {
  readonly names: readonly string[];
  start(context: Omit<HandlerContext, 'signal'>): void;
  stop(attemptId: string): void;
};

/** Every end arrives exactly once through `onEnd`, never synchronously from `start`. */
export function createHandlerExecutor(options: {
  readonly handlers: Handlers;
  readonly onEnd: (attemptId: string, facts: AttemptFacts) => void;
}): HandlerExecutor {
  const { handlers, onEnd } = options;
  const controllers = new Map<string, AbortController>();
  return {
    names: Object.keys(handlers),
    start(context) {
      const controller = new AbortController();
      const { attemptId } = context;
      controllers.set(attemptId, controller);
      const handler = handlers[`${context.packageName}/${context.taskId}`];
      const ended = (errorSummary: string | null) => {
        controllers.delete(attemptId);
        onEnd(attemptId, { kind: 'returned', errorSummary });
      };
      Promise.resolve()
        .then(() => handler?.({ ...context, signal: controller.signal }))
        .then(
          () => ended(handler === undefined ? 'no handler has this name' : null),
          (error: unknown) => ended(describeThrown(error)),
        );
    },
    stop(attemptId) {
      controllers.get(attemptId)?.abort();
    },
  };
}

/** What a handler threw, as bounded text: user code's failures are data. */
function describeThrown(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : `threw ${typeof error}`;
  return cutText(text, limits.errorSummaryBytesMax);
}
