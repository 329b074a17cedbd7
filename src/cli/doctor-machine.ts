// What `doctor` says of the machine: Node.js, SQLite, clock and zone, the run directory.
import { existsSync } from 'node:fs';
import { buildInfo } from '../runtime/build-info.generated.ts';
import { environmentVariable } from '../runtime/ports.ts';
import { findRunDirectoryTrouble, runDirectoryOf } from '../runtime/run-directory.ts';
import type { Check } from './check.ts';
import type { Context } from './command.ts';
import { isMemoryBacked, mountOf } from './mounts.ts';
import { cutInput } from './plain-text.ts';
import { formatOffset, formatTime } from './times.ts';

const nodeMajorMin = 24;

export function checkMachine(context: Context): readonly Check[] {
  return [checkNode(), checkSqlite(), checkProc(), checkClock(context), checkZone(context), checkRunDirectory(context)];
}

function checkNode(): Check {
  const { version, arch, platform } = process;
  const isNew = Number.parseInt(version.slice(1), 10) >= nodeMajorMin;
  return {
    name: 'node',
    state: isNew ? 'ok' : 'bad',
    text: `Node.js ${version} on ${platform} ${arch}${isNew ? '' : `; it needs ${nodeMajorMin} or newer`}`,
    facts: { version, platform, arch },
  };
}

type CompileFacts = {
  readonly version: string;
  readonly threadSafe: string | null;
  readonly options: readonly string[];
};

function checkSqlite(): Check {
  const facts = readCompileFacts();
  const { version, threadSafe } = facts;
  return {
    name: 'sqlite',
    state: 'ok',
    text: `SQLite ${version}, built into Node.js${threadSafe === null ? '' : `, threadsafe ${threadSafe}`}`,
    facts,
  };
}

function readCompileFacts(): CompileFacts {
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
  const db = new DatabaseSync(':memory:');
  try {
    const version = String(db.prepare('SELECT sqlite_version() AS version').get()?.['version']);
    const options = db
      .prepare('PRAGMA compile_options')
      .all()
      .map((row) => String(row['compile_options']));
    const threadSafe = options.find((option) => option.startsWith('THREADSAFE='))?.slice('THREADSAFE='.length) ?? null;
    return { version, threadSafe, options };
  } finally {
    db.close();
  }
}

/** Without it processes cannot be told apart, and nothing can be started. */
function checkProc(): Check {
  const isThere = existsSync('/proc/self/stat') && existsSync('/proc/sys/kernel/random/boot_id');
  const text = isThere ? 'is there' : 'is not mounted: mount it, or no runs can be carried on';
  return { name: '/proc', state: isThere ? 'ok' : 'bad', text, facts: { isThere } };
}

/** No clock is right that shows a time before this program was made. */
function checkClock({ clock }: Context): Check {
  const { wallMs, bootId, uptimeMs } = clock.observe();
  const isTrusted = wallMs >= buildInfo.buildDateMs;
  const early = `it is before this program was made (${formatTime(buildInfo.buildDateMs)}): set the clock (NTP)`;
  return {
    name: 'clock',
    state: isTrusted ? 'ok' : 'warning',
    text: `${formatTime(wallMs)}${isTrusted ? '' : `; ${early}; until then no wall time is believed`}`,
    facts: { wallMs, uptimeMs, bootId, isTrusted, trustedFromMs: buildInfo.buildDateMs },
  };
}

const utcPattern = /^:?((Etc|posix|right)\/)*(UTC|GMT|UCT|Zulu|Universal|Greenwich)([+-]?0+)?$/i;

/** Null where it has none that is known, and where this Node.js was built without zones. */
function readZone(): string | null {
  const { Intl: international } = globalThis as { readonly Intl?: typeof Intl };
  const zone: string | undefined = international?.DateTimeFormat().resolvedOptions().timeZone;
  return zone === undefined || zone === 'Etc/Unknown' ? null : zone;
}

function checkZone({ clock }: Context): Check {
  const { wallMs } = clock.observe();
  const zone = readZone();
  const offset = formatOffset(wallMs);
  const asked = environmentVariable('TZ');
  // Node reads a POSIX zone such as `CET-1CEST` as UTC, without a word; of what it does not know it has no name.
  const isUtc = offset === '+00:00' && (zone === null || zone === 'UTC');
  const isMisread = isUtc && asked !== null && asked !== '' && !utcPattern.test(asked);
  const misread = `; TZ is ${cutInput(asked ?? '')}, which Node.js reads as UTC: give a name such as Europe/Berlin`;
  return {
    name: 'zone',
    state: isMisread ? 'warning' : 'ok',
    text: `${zone ?? (isUtc ? 'UTC' : 'a zone without a name')}, UTC${offset}${isMisread ? misread : ''}`,
    facts: { zone, offset, environment: asked },
  };
}

function checkRunDirectory({ data, runDirectory }: Context): Check {
  const directory = runDirectoryOf(data, runDirectory);
  const mount = mountOf(directory);
  const trouble = findRunDirectoryTrouble(data, runDirectory);
  if (trouble !== null) {
    const text = `${trouble.message}; ${trouble.hint}`;
    return { name: 'run directory', state: 'bad', text, facts: { directory, mount, code: trouble.code } };
  }
  const isInMemory = mount === null ? null : isMemoryBacked(mount);
  const why = 'not in memory: everything works, but what a reboot makes worthless is written to storage';
  const texts = { true: 'in memory', false: `${why}; name one with --run-dir`, null: 'its file system is not known' };
  return {
    name: 'run directory',
    state: isInMemory === null ? 'unknown' : isInMemory ? 'ok' : 'warning',
    text: `${directory} (${mount?.type ?? 'unknown'}), ${texts[`${isInMemory}`]}`,
    facts: { directory, mount, isInMemory },
  };
}
