// What the commands need of a database adapter, handed in by main.ts: no other file of the command line names one.
import type { EdgeError } from '../core/errors.ts';
import type { ReadName, ReadRequest, Reads } from '../protocol/reads.ts';
import type { StorePorts } from '../runtime/engine.ts';
import type { ConfigFile } from '../runtime/settings.ts';
import type { ReadPort } from '../runtime/verification.ts';
import type { Store, StoreInfo } from '../store/store.ts';

/** Who says that it holds a data directory. */
export type Holder = {
  readonly pid: number;
  readonly socket: string | null;
  readonly startedAtMs: number;
  readonly command: string;
};

export type IntegrityReport = { readonly problems: readonly string[]; readonly isComplete: boolean };

/** Reads of one moment: at once, because they are in one transaction. */
export type Look = <N extends ReadName>(request: ReadRequest<N>) => Reads[N]['rows'];

export type Reader = ReadPort & {
  /** Where config.json cannot be believed, profile and durability are a guess. */
  readonly info: StoreInfo;
  /** What is wrong with config.json; null where nothing is. */
  readonly configError: EdgeError | null;
  /** At the time of opening. */
  readonly holder: Holder | null;
  /** Several reads of one moment; `work` must be quick. */
  readTogether<T>(work: (look: Look) => T): T;
  /** What differs from the schema of this program; a store that has any is not opened. */
  schemaProblems(): readonly string[];
  checkIntegrity(): IntegrityReport;
  close(): void | Promise<void>;
};

export type OpenStoreOptions = {
  readonly data: string;
  readonly profile: 'edge' | 'standalone' | null;
  readonly durability: string | null;
  /** What the holder says that it is, such as `serve`. */
  readonly command: string;
  readonly socket: string | null;
  readonly report: {
    /** Something failed that nobody waits for. */
    failed(line: string): void;
    /** After an unknown outcome the database could not be had back: nothing works any more. */
    closedForGood(error: EdgeError): void;
  };
};

export type Storage = {
  /** Takes the holder lock; makes the directory where it is missing. Throws `busy` naming the holder. */
  openStore(options: OpenStoreOptions): (ports: StorePorts) => Promise<Store>;
  /** Reads beside any holder. Throws `not-found` without a data directory. */
  openReader(options: { readonly data: string }): Promise<Reader>;
  /** Whether a process holds the lock of the directory now, whatever holder.json says. */
  isHeld(data: string): Promise<boolean>;
  /** Whether the kernel says that this process holds it; false also where it does not tell. */
  isHeldByProcess(data: string, pid: number): Promise<boolean>;
  /** config.json of the directory; null where there is none. Throws `invalid` where it is no JSON object. */
  readConfig(data: string): Promise<ConfigFile | null>;
  /** Null where nobody holds the directory, or where there is none. */
  readHolder(data: string): Promise<Holder | null>;
  /** A real write, its sync and a read-back in a scratch file. Null where that works, else what failed. */
  tryDurability(options: { readonly data: string; readonly durability: string }): Promise<Error | null>;
};
