// Entry `qinglong-edge`: the library. Runs workflows inside the embedder's process; gives no way to write rows.
import { resolve } from 'node:path';
import { EdgeError } from './core/errors.ts';
import type { RunEvent } from './core/events.ts';
import { limits } from './core/limits.ts';
import type { RunStatus } from './core/states.ts';
import type { Handlers } from './executor/handlers.ts';
import { openHolder } from './http/holder.ts';
import type { StartOutcome } from './protocol/admit.ts';
import type { CancelOutcome } from './protocol/cancel.ts';
import type { SettingOutcome } from './protocol/package-setting.ts';
import { read } from './protocol/reads.ts';
import type { RetryOutcome } from './protocol/retry.ts';
import { checkArguments, checkRequest } from './runtime/arguments.ts';
import { inspectRun, inspectRunSummary, type RunInspection, type RunListEntry } from './runtime/inspection.ts';
import { describeError, type Log } from './runtime/log.ts';
import { inspectSettings, type SettingInspection, type SettingRequest } from './runtime/package-setting.ts';
import {
  localProjectId,
  type OnStop,
  type Profile,
  readRuntimeSettings,
  type SettingName,
  type SettingOptions,
  settingNames,
  settingRule,
} from './runtime/settings.ts';
import type { AdvanceReport, InstallReport } from './runtime/verbs.ts';
import { openSqliteStore, type SqliteStoreOptions } from './sqlite.ts';
import { readConfigFile } from './store/sqlite/data-directory.ts';
import type { Store } from './store/store.ts';

/** A setting that is not given comes from the environment, from config.json, or is the profile's default. */
export type OpenOptions = SettingOptions & {
  /** The data directory; made where it is missing. */
  readonly data: string;
  /** Fixed when the directory is made; `edge` by default. */
  readonly profile?: Profile;
  readonly durability?: 'delete-extra' | 'delete-full' | 'wal-full';
  /** Memory-backed where possible; below /run by default. */
  readonly runDirectory?: string;
  /** In-process handlers by `package/task`; a task without one runs its command. */
  readonly handlers?: Handlers;
  /** Where the runtime's own lines go; nowhere by default. */
  readonly log?: Log;
};

export type EdgeRuntime = {
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
  /** One bounded page of frontier passes; the runtime does this by itself, and it is for what was missed. */
  advance(limit?: number): Promise<AdvanceReport>;
  /**
   * Ends the runtime; by default as the setting `onStop` says. `stop` ends what runs and records that; `detach` leaves
   * commands to whoever opens it next.
   */
  close(onStop?: OnStop): Promise<void>;
};

/**
 * Opens a data directory, takes over what an earlier process left running, and carries its runs on until `close`.
 * Throws `busy` naming the process that holds it, `invalid` for another profile than the directory's, `damaged`.
 */
export async function openRuntime(options: OpenOptions): Promise<EdgeRuntime> {
  checkOptions(options);
  const log = options.log ?? (() => {});
  const data = resolve(options.data);
  const settings = readRuntimeSettings({
    given: options,
    config: readConfigFile(data),
    profile: options.profile ?? null,
  });
  const storeOptions = {
    data,
    profile: options.profile ?? null,
    durability: options.durability ?? null,
    report: reportTo(log),
  };
  const holder = await openHolder({
    data,
    settings,
    runDirectory: options.runDirectory ?? null,
    handlers: options.handlers ?? {},
    drives: true,
    log,
    onOutput: null,
    command: 'library',
    openStore: async (ports, identity) => openSqliteStore({ ...storeOptions, ...identity, ...ports }),
  });
  const { verbs, store } = holder;
  let isClosing = false;
  const refuseWhileClosing = () => {
    if (isClosing) {
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
    advance: (limit = 64) => verbs.advance({ limit }),
    close: async (onStop = settings.onStop) => {
      checkArguments({ onStop });
      isClosing = true;
      return holder.close(onStop);
    },
  };
}

/** What nobody waits for goes to the log. */
function reportTo(log: Log): SqliteStoreOptions['report'] {
  return {
    failed: (operation, error) => log(`${operation?.name ?? 'turn'} failed: ${describeError(error)}`),
    closedForGood: (error) => log(describeError(error)),
  };
}

/** What only reads: works until the store is closed. */
function createReadings(store: Pick<Store, 'read'>): Pick<EdgeRuntime, 'settings' | 'runs' | 'run'> {
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

const optionRules: {
  readonly [K in keyof Required<Omit<OpenOptions, SettingName>>]: (value: unknown) => string | null;
} = {
  data: (value) => (typeof value === 'string' && value !== '' ? null : 'must be the path of a directory'),
  profile: (value) => (value === 'edge' || value === 'standalone' ? null : 'must be edge or standalone'),
  durability: (value) =>
    ['delete-extra', 'delete-full', 'wal-full'].includes(`${value}`)
      ? null
      : 'must be delete-extra, delete-full or wal-full',
  runDirectory: (value) => (typeof value === 'string' && value !== '' ? null : 'must be the path of a directory'),
  handlers: (value) =>
    typeof value === 'object' && value !== null && Object.values(value).every((entry) => typeof entry === 'function')
      ? null
      : 'must be an object of functions by package/task',
  log: (value) => (typeof value === 'function' ? null : 'must be a function'),
};

function checkOptions(options: unknown): void {
  const given = typeof options === 'object' && options !== null ? (options as Record<string, unknown>) : {};
  const present = Object.entries({ data: undefined, ...given }).filter(
    ([name, value]) => name === 'data' || value !== undefined,
  );
  const mistakes = present.flatMap(([path, value]) => {
    const rule = ruleOf(path, value);
    return rule === null ? [] : [{ file: null, path, line: null, rule }];
  });
  if (mistakes.length > 0) {
    const [first] = mistakes;
    throw new EdgeError('invalid', `${first!.path} ${first!.rule}`, { hint: 'correct the options', mistakes });
  }
}

function ruleOf(name: string, value: unknown): string | null {
  const setting = settingNames.find((known) => known === name);
  if (setting !== undefined) {
    return settingRule(setting, value);
  }
  return Object.hasOwn(optionRules, name)
    ? optionRules[name as keyof typeof optionRules](value)
    : 'is not an option of openRuntime';
}

export { EdgeError, isEdgeError } from './core/errors.ts';
export type { Handler, HandlerContext, Handlers } from './executor/handlers.ts';
export type {
  AdvanceReport,
  CancelOutcome,
  InstallReport,
  Log,
  Profile,
  RetryOutcome,
  RunEvent,
  RunInspection,
  RunListEntry,
  RunStatus,
  SettingInspection,
  SettingOutcome,
  StartOutcome,
};
