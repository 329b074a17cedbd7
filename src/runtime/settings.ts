// What differs between the profiles, and the settings of one data directory.
const KIB = 1024;
const MIB = 1024 * KIB;

export type ProfileSettings = {
  /** Commands that run at the same time. */
  readonly concurrencyMax: number;
  /** Output of one attempt that is kept: its first and last part. */
  readonly outputBytesMax: number;
  /** One segment of the pump: three of them are the most that an attempt holds in the run directory. */
  readonly segmentBytes: number;
};

export const profileSettings = {
  edge: { concurrencyMax: 1, outputBytesMax: 256 * KIB, segmentBytes: 512 * KIB },
  standalone: { concurrencyMax: 4, outputBytesMax: 4 * MIB, segmentBytes: 2 * MIB },
} as const satisfies Record<string, ProfileSettings>;

export type Profile = keyof typeof profileSettings;

/** The one project of a data directory. */
export const localProjectId = 'local';
