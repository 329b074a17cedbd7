// What one call of the cluster's command line is made of: its words, its ports, and the adapter that it is handed.
import type { Alarm, Clock, Ids } from '../core/ports.ts';
import type { RuntimeSettings } from '../runtime/settings.ts';
import type { Leases, SharedStore } from '../store/leases.ts';

export type ClusterPorts = { readonly clock: Clock; readonly alarm: Alarm; readonly ids: Ids };

/** The adapter. */
export type ClusterAdapter = {
  migrate(url: string): Promise<readonly string[]>;
  openStore(url: string, ports: ClusterPorts, log: (line: string) => void): Promise<SharedStore>;
  openLeases(url: string, ports: ClusterPorts, leaseMs: number): Leases;
};

export type ClusterCall = ClusterPorts & {
  readonly url: string;
  readonly data: string;
  readonly words: readonly string[];
  readonly key: string | null;
  readonly settings: RuntimeSettings;
  readonly leaseMs: number;
  readonly isUntilIdle: boolean;
  readonly adapter: ClusterAdapter;
  readonly log: (line: string) => void;
  readonly print: (document: unknown) => void;
};
