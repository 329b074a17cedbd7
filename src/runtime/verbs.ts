// The verbs that change something, as every surface calls them: directly on the runtime in this process, or through the
// socket of the process that holds the data directory. Plain JSON in and out.
import type { RunEvent } from '../core/events.ts';
import type { AdmitOutcome, StartOutcome } from '../protocol/admit.ts';
import type { AdvanceOutcome } from '../protocol/advance.ts';
import type { CancelOutcome } from '../protocol/cancel.ts';
import type { InstallOutcome, LifecycleInput, LifecycleOutcome, QuarantineOutcome } from '../protocol/package.ts';
import type { SettingOutcome } from '../protocol/package-setting.ts';
import type {
  AddPublisherInput,
  AddPublisherOutcome,
  RevokePublisherInput,
  RevokePublisherOutcome,
} from '../protocol/publisher.ts';
import type { RetryOutcome } from '../protocol/retry.ts';
import type { ClearOutcome } from '../protocol/set-aside.ts';
import type { SettingRequest } from './package-setting.ts';
import type { RetryRequest, StartRequest } from './runtime.ts';

export type InstallReport = {
  readonly packageName: string;
  readonly version: string;
  readonly files: number;
  readonly bytes: number;
  /** What was there at the top of the package, and is no part of it. */
  readonly leftOut: readonly string[];
  /** Files of an installed copy that had been altered, and were put right. */
  readonly mended: readonly string[];
  readonly outcome: InstallOutcome;
};

export type AdvanceReport = {
  readonly outcomes: readonly AdvanceOutcome[];
  /** Whether another page waits. */
  readonly hasMore: boolean;
};

export type Verbs = {
  /** Checks, copies and publishes the package in a directory or archive of this machine. Throws `invalid`, `full`. */
  install(request: { readonly path: string }): Promise<InstallReport>;
  changeLifecycle(request: Omit<LifecycleInput, 'projectId'>): Promise<LifecycleOutcome>;
  quarantine(request: {
    readonly packageName: string;
    readonly reason: string;
    readonly requestedBy: string;
  }): Promise<QuarantineOutcome>;
  addPublisher(request: AddPublisherInput): Promise<AddPublisherOutcome>;
  /** Ends the trust in a key for good: nothing that it signed starts any more, and what runs of it is cancelled. */
  revokePublisher(request: Omit<RevokePublisherInput, 'projectId'>): Promise<RevokePublisherOutcome>;
  /** Sets, or with null unsets, what this device gives to the commands of a package. The answer holds no value. */
  changeSetting(request: SettingRequest): Promise<SettingOutcome>;
  start(request: StartRequest): Promise<StartOutcome>;
  /** Starts a run that retries one that has ended. */
  retry(request: RetryRequest): Promise<RetryOutcome>;
  admit(request: { readonly plan: unknown; readonly requestedBy: string }): Promise<AdmitOutcome>;
  advance(request: { readonly limit: number }): Promise<AdvanceReport>;
  cancel(request: { readonly runId: string; readonly requestedBy: string }): Promise<CancelOutcome>;
  /** Takes back a run that was set aside, if it is sound. Throws `damaged` with every difference if it is not. */
  clearSetAside(request: { readonly runId: string }): Promise<ClearOutcome>;
  /** Committed events of a run after a sequence number, and those to come until it has ended or was set aside. */
  follow(request: { readonly runId: string; readonly after: number }): AsyncIterable<RunEvent>;
};
