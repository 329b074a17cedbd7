// The ports through which everything outside core meets time and fresh ids. Each has one real implementation
// (runtime/ports.ts) and one simulated twin (test/sim).

/** One observation of time. Wall time may be wrong and may step; uptime never goes back within one boot. */
export type Now = {
  readonly wallMs: number;
  /** Monotonic, since the machine's boot, so that it means the same to every process of that boot. */
  readonly uptimeMs: number;
  readonly bootId: string;
  /**
   * Another boot may be another machine, of which this one's uptime says nothing, and wall time is that of the database
   * which all of them share. Else another boot is an earlier one of this machine.
   */
  readonly isShared?: boolean;
};

export type Clock = {
  observe(): Now;
};

/** Cancels what was set; harmless when it has already fired. */
export type CancelAlarm = () => void;

/** One timer for the whole process, whatever number of entries is set; no timer while there is none. */
export type Alarm = {
  /** Calls `ring` once, not before `uptimeMs`. */
  set(uptimeMs: number, ring: () => void): CancelAlarm;
};

export type Salts = {
  /** 16 random bytes as hex digits, for a digest of what could be guessed. */
  fresh(): string;
};

export type Ids = {
  /** A fresh UUIDv7: 36 bytes, rising with time. */
  fresh(): string;
};
