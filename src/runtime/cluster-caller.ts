// What is asked of a shared database by a process that may carry runs on as well or not: an engine that only records.
// Owns no store and no lease; closing it leaves both open.
import type { StartOutcome } from '../protocol/admit.ts';
import type { Leases, SharedStore } from '../store/leases.ts';
import { makeDirectories } from '../store/make-directories.ts';
import type { Store } from '../store/store.ts';
import { shareContents } from './cluster-packages.ts';
import { openEngine } from './engine.ts';
import type { Log } from './log.ts';
import type { StartRequest } from './runtime.ts';
import type { RuntimeSettings } from './settings.ts';
import { createStarts } from './starts.ts';
import type { InstallReport } from './verbs.ts';

export type CallerOptions = {
  readonly data: string;
  readonly settings: RuntimeSettings;
  readonly shared: SharedStore;
  readonly leases: Leases;
  readonly log: Log;
};

export type Caller = {
  /** As `Verbs.install`, with the bytes where every runtime finds them. */
  install(path: string): Promise<InstallReport>;
  /** As `Verbs.start`. Waking whoever carries it on is for whoever hears of commits. */
  start(request: StartRequest): Promise<StartOutcome>;
  close(): Promise<void>;
};

export async function openCaller(options: CallerOptions): Promise<Caller> {
  const { data, settings, shared, leases, log } = options;
  makeDirectories(data);
  // What commits is told to whoever carries runs on here.
  const whole: Store = { ...shared, attach: () => {}, wake: () => {}, close: async () => {} };
  const engine = await openEngine({
    ...{ data, settings, log, handlers: {}, runDirectory: null, onOutput: null },
    drives: false,
    openStore: async () => whole,
    sharing: { createStarts, whole, startByUptimeMs: () => Number.POSITIVE_INFINITY },
  });
  return {
    async install(path) {
      const { checkPackage } = await import('./package-source.ts');
      await shareContents(leases, await checkPackage(path));
      return await engine.verbs.install({ path });
    },
    start: (request) => engine.verbs.start(request),
    close: () => engine.close('detach'),
  };
}
