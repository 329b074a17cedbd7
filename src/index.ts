// Entry `qinglong-edge`: the library. Runs workflows inside the embedder's process; gives no way to write rows.
import { resolve } from 'node:path';
import type { Handlers } from './executor/handlers.ts';
import { openHolder } from './http/holder.ts';
import { checkArguments } from './runtime/arguments.ts';
import { checkOptions, commonRules, type EmbeddedRuntime, embed, type OptionRule } from './runtime/embedding.ts';
import { describeError, type Log } from './runtime/log.ts';
import {
  type OnStop,
  type Profile,
  readRuntimeSettings,
  type SettingName,
  type SettingOptions,
} from './runtime/settings.ts';
import type { AdvanceReport } from './runtime/verbs.ts';
import { openSqliteStore, type SqliteStoreOptions } from './sqlite.ts';
import { readConfigFile } from './store/sqlite/data-directory.ts';

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

export type EdgeRuntime = EmbeddedRuntime & {
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
  checkOptions(options, { rules: optionRules, required: ['data'], of: 'openRuntime' });
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
  return {
    ...embed({ verbs, store, isClosing: () => isClosing }),
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

const optionRules: {
  readonly [K in keyof Required<Omit<OpenOptions, SettingName>>]: OptionRule;
} = {
  profile: (value) => (value === 'edge' || value === 'standalone' ? null : 'must be edge or standalone'),
  durability: (value) =>
    ['delete-extra', 'delete-full', 'wal-full'].includes(`${value}`)
      ? null
      : 'must be delete-extra, delete-full or wal-full',
  ...commonRules,
};

export { EdgeError, isEdgeError } from './core/errors.ts';
export type { RunEvent } from './core/events.ts';
export type { RunStatus } from './core/states.ts';
export type { Handler, HandlerContext, Handlers } from './executor/handlers.ts';
export type { StartOutcome } from './protocol/admit.ts';
export type { CancelOutcome } from './protocol/cancel.ts';
export type { SettingOutcome } from './protocol/package-setting.ts';
export type { RetryOutcome } from './protocol/retry.ts';
export type { RunInspection, RunListEntry } from './runtime/inspection.ts';
export type { SettingInspection } from './runtime/package-setting.ts';
export type { InstallReport } from './runtime/verbs.ts';
export type { AdvanceReport, Log, Profile };
