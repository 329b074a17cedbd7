// The verbs that change something, as every surface calls them: directly on the runtime in this process, or through the
// socket of the process that holds the data directory. Plain JSON in and out.
import type { RunEvent } from '../core/events.ts';
import type { AdmitOutcome, StartOutcome } from '../protocol/admit.ts';
import type { AdvanceOutcome } from '../protocol/advance.ts';
import type { CancelOutcome } from '../protocol/cancel.ts';
import type { InstallOutcome, LifecycleInput, LifecycleOutcome, QuarantineOutcome } from '../protocol/package.ts';
import type { ClearOutcome } from '../protocol/set-aside.ts';
import type { StartRequest } from './runtime.ts';

export type InstallReport = {
  readonly packageName: string;
  readonly version: string;
  readonly files: number;
  readonly bytes: number;
  readonly outcome: InstallOutcome;
};

export type AdvanceReport = {
  readonly outcomes: readonly AdvanceOutcome[];
  /** Whether another page waits. */
  readonly hasMore: boolean;
};

export type Verbs = {
  /** Checks, copies and publishes the package in a directory of this machine. Throws `invalid` with every mistake. */
  install(request: { readonly directory: string }): Promise<InstallReport>;
  changeLifecycle(request: Omit<LifecycleInput, 'projectId'>): Promise<LifecycleOutcome>;
  quarantine(request: {
    readonly packageName: string;
    readonly reason: string;
    readonly requestedBy: string;
  }): Promise<QuarantineOutcome>;
  start(request: StartRequest): Promise<StartOutcome>;
  admit(request: { readonly plan: unknown; readonly requestedBy: string }): Promise<AdmitOutcome>;
  advance(request: { readonly limit: number }): Promise<AdvanceReport>;
  cancel(request: { readonly runId: string; readonly requestedBy: string }): Promise<CancelOutcome>;
  /** Takes back a run that was set aside, if it is sound. Throws `damaged` with every difference if it is not. */
  clearSetAside(request: { readonly runId: string }): Promise<ClearOutcome>;
  /** Committed events of a run after a sequence number, and those to come until it has ended or was set aside. */
  follow(request: { readonly runId: string; readonly after: number }): AsyncIterable<RunEvent>;
};
