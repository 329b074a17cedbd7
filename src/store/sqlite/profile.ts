// The profiles of SQLite, what their durability is, and the pragmas that make it so. Owns the table; opens nothing.
import { EdgeError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';

export type Profile = 'edge' | 'standalone';
export type Durability = 'delete-extra' | 'delete-full' | 'wal-full';

/** Fixed when the data directory is made. */
export type StorageSettings = { readonly profile: Profile; readonly durability: Durability };

/** What a caller asks for; null takes what the directory has, or the default where it has none yet. */
export type AskedSettings = { readonly profile: Profile | null; readonly durability: Durability | null };

const MIB = 1024 * 1024;

// `delete-full` loses an acknowledged commit at power loss: the unlink of the journal is not followed by a sync of the
// directory (36 of 1,820 modelled disks, 40 of 200 on ext4, 5 of 5 cuts of a virtual machine). `delete-extra` is that
// sync: none lost, about one fsync more. NORMAL and OFF are never offered.
export const durabilities = {
  'delete-extra': { profile: 'edge', journalMode: 'delete' },
  'delete-full': { profile: 'edge', journalMode: 'delete' },
  'wal-full': { profile: 'standalone', journalMode: 'wal' },
} as const satisfies Record<Durability, { profile: Profile; journalMode: 'delete' | 'wal' }>;

export const defaultDurability = { edge: 'delete-extra', standalone: 'wal-full' } as const satisfies Record<
  Profile,
  Durability
>;

/** How far the WAL may grow before a turn waits for the reader that pins it; what the journal is cut back to. */
export const journalBytesMax = { edge: 8 * MIB, standalone: 64 * MIB } as const satisfies Record<Profile, number>;

/** A statement that sets, and what the database must answer when asked for the value. */
export type Pragma = { readonly set: string; readonly answer: string | number };

/**
 * What the file has for good; settled before its first page is written. On a file that is there they are only asked
 * for: setting auto_vacuum again would write a page at every start.
 */
export const layoutPragmas: readonly Pragma[] = [
  // 4096 costs 1.7 to 2.3 times as many bytes written.
  { set: 'PRAGMA page_size = 1024', answer: 1024 },
  { set: 'PRAGMA auto_vacuum = INCREMENTAL', answer: 2 },
];

const guards: readonly Pragma[] = [
  { set: 'PRAGMA foreign_keys = ON', answer: 1 },
  // Off, INSERT OR REPLACE slips past the triggers that refuse DELETE.
  { set: 'PRAGMA recursive_triggers = ON', answer: 1 },
  { set: 'PRAGMA trusted_schema = OFF', answer: 0 },
  // Answers 0 only because the connection is defensive.
  { set: 'PRAGMA writable_schema = ON', answer: 0 },
  // Temporary files would be written to flash, outside the data directory.
  { set: 'PRAGMA temp_store = MEMORY', answer: 2 },
];

/** For a connection that serves: a longer wait inside SQLite would block the loop. */
export const servingPragmas: readonly Pragma[] = [{ set: 'PRAGMA busy_timeout = 50', answer: limits.busyTimeoutMs }];

const journals: Readonly<Record<Durability, readonly Pragma[]>> = {
  'delete-extra': [
    { set: 'PRAGMA journal_mode = DELETE', answer: 'delete' },
    { set: 'PRAGMA synchronous = EXTRA', answer: 3 },
  ],
  'delete-full': [
    { set: 'PRAGMA journal_mode = DELETE', answer: 'delete' },
    { set: 'PRAGMA synchronous = FULL', answer: 2 },
  ],
  'wal-full': [
    { set: 'PRAGMA journal_mode = WAL', answer: 'wal' },
    { set: 'PRAGMA synchronous = FULL', answer: 2 },
    // In pages: 1 MiB.
    { set: 'PRAGMA wal_autocheckpoint = 1000', answer: 1000 },
  ],
};

const sizes: Readonly<Record<Profile, readonly Pragma[]>> = {
  edge: [
    { set: 'PRAGMA cache_size = -2048', answer: -2048 },
    { set: 'PRAGMA mmap_size = 0', answer: 0 },
    { set: 'PRAGMA journal_size_limit = 8388608', answer: journalBytesMax.edge },
  ],
  standalone: [
    { set: 'PRAGMA cache_size = -16384', answer: -16384 },
    { set: 'PRAGMA mmap_size = 67108864', answer: 64 * MIB },
    { set: 'PRAGMA journal_size_limit = 67108864', answer: journalBytesMax.standalone },
  ],
};

/** The pragmas of a connection that writes, to be set after the layout: journal_mode=WAL writes the first page. */
export function writerPragmas(durability: Durability): readonly Pragma[] {
  return [...guards, ...journals[durability], ...sizes[durabilities[durability].profile]];
}

/** The pragmas of a connection that only reads: what concerns the file was settled by who made it. */
export function readerPragmas(profile: Profile): readonly Pragma[] {
  return [...guards, ...sizes[profile]];
}

export function isProfile(value: unknown): value is Profile {
  return typeof value === 'string' && Object.hasOwn(defaultDurability, value);
}

export function isDurability(value: unknown): value is Durability {
  return typeof value === 'string' && Object.hasOwn(durabilities, value);
}

/**
 * What a directory is to be opened with: what it has wins over the default, never over what was asked for. Throws
 * `invalid` where the two differ, and where a durability belongs to the other profile.
 */
export function settleSettings(asked: AskedSettings, fixed: AskedSettings): StorageSettings {
  refuseOther('profile', asked.profile, fixed.profile);
  refuseOther('durability', asked.durability, fixed.durability);
  const named = fixed.durability ?? asked.durability;
  const profile = fixed.profile ?? asked.profile ?? (named === null ? 'edge' : durabilities[named].profile);
  const durability = named ?? defaultDurability[profile];
  if (durabilities[durability].profile !== profile) {
    const offered = Object.entries(durabilities).filter(([, row]) => row.profile === profile);
    throw new EdgeError('invalid', `durability ${durability} does not belong to profile ${profile}`, {
      hint: `choose ${offered.map(([name]) => name).join(' or ')}, or profile ${durabilities[durability].profile}`,
    });
  }
  return { profile, durability };
}

function refuseOther(name: 'profile' | 'durability', asked: string | null, fixed: string | null): void {
  if (asked !== null && fixed !== null && asked !== fixed) {
    throw new EdgeError('invalid', `this data directory was made with ${name} ${fixed}, not ${asked}`, {
      hint: `leave out ${name}, or use another data directory`,
    });
  }
}
