// What an embedder sees of a runtime, whatever keeps its runs: the same verbs with their defaults, and checked
// arguments. Gives no way to write rows.
import { EdgeError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import type { RunStatus } from '../core/states.ts';
import type { StartOutcome } from '../protocol/admit.ts';
import type { CancelOutcome } from '../protocol/cancel.ts';
import type { SettingOutcome } from '../protocol/package-setting.ts';
import { read } from '../protocol/reads.ts';
import type { RetryOutcome } from '../protocol/retry.ts';
import { checkArguments, checkRequest } from './arguments.ts';
import { inspectRun, inspectRunSummary, type RunInspection, type RunListEntry } from './inspection.ts';
import { inspectSettings, type SettingInspection, type SettingRequest } from './package-setting.ts';
import { localProjectId, settingNames, settingRule } from './settings.ts';
import type { InstallReport, Verbs } from './verbs.ts';
import type { ReadPort } from './verification.ts';

/** What an embedder asks of a runtime, whatever keeps its runs. */
export type EmbeddedRuntime = {
  /** Installs the package in a directory or archive. Throws `invalid` with every mistake; then nothing is installed. */
  install(path: string): Promise<InstallReport>;
  /** Sets, or with null unsets, what this device gives to a package where its `env` has `{ setting: NAME }`. */
  changeSetting(request: SettingRequest): Promise<SettingOutcome>;
  /** What a package asks of this device and what is set, with the values: passwords may be among them. */
  settings(packageName: string): Promise<readonly SettingInspection[]>;
  /** Starts a run, or answers with the one that the idempotency key led to. */
  start(request: {
    readonly packageName: string;
    readonly workflowId: string;
    readonly idempotencyKey?: string;
    readonly requestedBy?: string;
  }): Promise<StartOutcome>;
  /** Starts a run of the workflow as it is installed now, which retries one that has ended. */
  retry(request: {
    readonly runId: string;
    readonly idempotencyKey?: string;
    readonly requestedBy?: string;
  }): Promise<RetryOutcome>;
  /** Runs, the newest first: at most `limit` (default 20, 64 at most) of those older than `beforeRunId`. */
  runs(request?: {
    readonly limit?: number;
    readonly status?: RunStatus;
    readonly packageName?: string;
    readonly beforeRunId?: string;
  }): Promise<readonly RunListEntry[]>;
  /** A run as it is now. Throws `not-found`, and `damaged` where its evidence is. */
  run(runId: string): Promise<RunInspection>;
  /**
   * Committed events after a sequence number, and those to come until the run has ended. Where the payload of an
   * attempt's end has no `finishedAtMs`, as of handlers, the event's own time is when it ended.
   */
  events(runId: string, after?: number): AsyncIterable<RunEvent>;
  cancel(runId: string, requestedBy?: string): Promise<CancelOutcome>;
};

/** `isClosing`: from then on nothing new is taken. */
export function embed({
  verbs,
  store,
  isClosing,
}: {
  readonly verbs: Verbs;
  readonly store: ReadPort;
  readonly isClosing: () => boolean;
}): EmbeddedRuntime {
  const refuseWhileClosing = () => {
    if (isClosing()) {
      throw new EdgeError('unavailable', 'this runtime is ending', { hint: 'open another one' });
    }
  };
  return {
    install: async (path) => {
      refuseWhileClosing();
      return verbs.install({ path });
    },
    changeSetting: async (request) => {
      checkRequest(request, 'changeSetting({ packageName, name, value })');
      return verbs.changeSetting(request);
    },
    ...createReadings(store),
    start: async (request) => {
      checkRequest(request, 'start({ packageName, workflowId })');
      refuseWhileClosing();
      const { packageName, workflowId, idempotencyKey = null, requestedBy = 'library' } = request;
      return verbs.start({ packageName, workflowId, idempotencyKey, requestedBy });
    },
    retry: async (request) => {
      checkRequest(request, 'retry({ runId })');
      refuseWhileClosing();
      const { runId, idempotencyKey = null, requestedBy = 'library' } = request;
      return verbs.retry({ runId, idempotencyKey, requestedBy });
    },
    events: (runId, after = 0) => {
      checkArguments({ runId, after });
      return verbs.follow({ runId, after });
    },
    cancel: (runId, requestedBy = 'library') => verbs.cancel({ runId, requestedBy }),
  };
}

/** What only reads: works until the store is closed. */
function createReadings(store: ReadPort): Pick<EmbeddedRuntime, 'settings' | 'runs' | 'run'> {
  return {
    settings: async (packageName) => {
      checkArguments({ packageName });
      const place = { projectId: localProjectId, packageName };
      const head = await store.read(read('package', place));
      if (head === null) {
        const hint = 'install it first: `install(path)`';
        throw new EdgeError('not-found', `package ${packageName} is not installed`, { hint });
      }
      return inspectSettings(head, await store.read(read('settings', place)));
    },
    runs: async (request = {}) => {
      checkRequest(request, 'runs({ limit, status, packageName, beforeRunId })');
      const { limit = 20, status = null, packageName = null, beforeRunId = null } = request;
      checkArguments({ limit, status, beforeRunId, ...(packageName === null ? {} : { packageName }) });
      const runs = await store.read(read('runs', { limit, status, packageName, beforeRunId }));
      return runs.map(inspectRunSummary);
    },
    run: async (runId) => {
      checkArguments({ runId });
      const rows = await store.read(read('wholeRun', { runId }));
      const admission = await store.read(read('admissionOfRun', { runId }));
      if (rows === null || admission === null) {
        throw new EdgeError('not-found', `run ${runId} is unknown`, { hint: 'give the id that `start` answered with' });
      }
      return inspectRun(rows, admission, await store.read(read('retriesOfRun', { runId, limit: limits.pageMax })));
    },
  };
}

/** Null where a value may be, else what it must be. */
export type OptionRule = (value: unknown) => string | null;

const isText: OptionRule = (value) =>
  typeof value === 'string' && value !== '' ? null : 'must be the path of a directory';

/** Of the options that every embedder may give. */
export const commonRules = {
  data: isText,
  runDirectory: isText,
  handlers: (value: unknown) =>
    typeof value === 'object' && value !== null && Object.values(value).every((entry) => typeof entry === 'function')
      ? null
      : 'must be an object of functions by package/task',
  log: (value: unknown) => (typeof value === 'function' ? null : 'must be a function'),
} as const satisfies Record<string, OptionRule>;

/** Throws `invalid` with every mistake; settings have rules of their own. `of` is the function that takes them. */
export function checkOptions(
  options: unknown,
  {
    rules,
    required,
    of,
  }: {
    readonly rules: Readonly<Record<string, OptionRule>>;
    readonly required: readonly string[];
    readonly of: string;
  },
): void {
  const given = typeof options === 'object' && options !== null ? (options as Record<string, unknown>) : {};
  const missing = Object.fromEntries(required.map((name) => [name, undefined]));
  const present = Object.entries({ ...missing, ...given }).filter(
    ([name, value]) => required.includes(name) || value !== undefined,
  );
  const mistakes = present.flatMap(([path, value]) => {
    const setting = settingNames.find((known) => known === path);
    const check = Object.hasOwn(rules, path) ? rules[path] : undefined;
    const unknown = `is not an option of ${of}`;
    const rule = setting !== undefined ? settingRule(setting, value) : check === undefined ? unknown : check(value);
    return rule === null ? [] : [{ file: null, path, line: null, rule }];
  });
  if (mistakes.length > 0) {
    const [first] = mistakes;
    throw new EdgeError('invalid', `${first!.path} ${first!.rule}`, { hint: 'correct the options', mistakes });
  }
}
