// What `doctor` says of the machine: Node.js, SQLite, clock and zone, the run directory.
import { buildInfo } from '../runtime/build-info.generated.ts';
import { environmentVariable } from '../runtime/ports.ts';
import { runDirectoryOf } from '../runtime/run-directory.ts';
import type { Check } from './check.ts';
import type { Context } from './command.ts';
import { isMemoryBacked, mountOf } from './mounts.ts';
import { formatOffset, formatTime } from './times.ts';

const nodeMajorMin = 24;

export function checkMachine(context: Context): readonly Check[] {
  return [checkNode(), checkSqlite(), checkClock(context), checkZone(context), checkRunDirectory(context)];
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

function checkZone({ clock }: Context): Check {
  const { wallMs } = clock.observe();
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const asked = environmentVariable('TZ');
  // Node reads a POSIX zone such as `CET-1CEST` as UTC, without a word.
  const isMisread = asked !== null && asked !== '' && zone === 'UTC' && !/^:?(Etc\/)?(UTC|GMT|UCT|Zulu)$/i.test(asked);
  const misread = `; TZ is ${asked}, which Node.js reads as UTC: give a name such as Europe/Berlin`;
  return {
    name: 'zone',
    state: isMisread ? 'warning' : 'ok',
    text: `${zone}, UTC${formatOffset(wallMs)}${isMisread ? misread : ''}`,
    facts: { zone, offset: formatOffset(wallMs), environment: asked },
  };
}

function checkRunDirectory({ data, runDirectory }: Context): Check {
  const directory = runDirectoryOf(data, runDirectory);
  const mount = mountOf(directory);
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
