// What `doctor` says of a data directory: its storage, what its durability gives, space, schema, damaged runs, holder.
import { existsSync, statfsSync } from 'node:fs';
import { isEdgeError } from '../core/errors.ts';
import { fromFileError } from '../core/file-error.ts';
import { limits } from '../core/limits.ts';
import { read } from '../protocol/reads.ts';
import type { Check } from './check.ts';
import type { Context } from './command.ts';
import { checkAttempts } from './doctor-attempts.ts';
import { checkPackages } from './doctor-packages.ts';
import { checkConfig } from './doctor-settings.ts';
import { exitCodes, failureOf } from './failure.ts';
import { isMemoryBacked, isOnNetwork, type Mount, mountOf } from './mounts.ts';
import { runDirectoryFor } from './session.ts';
import type { Reader } from './storage.ts';
import { formatBytes, formatCount, formatElapsed, formatTime } from './times.ts';

const MIB = 1024 * 1024;
/** A journal of the edge profile and some room to grow. */
const freeBytesMin = 16 * MIB;
/** Of a SQLite database in its journal, artifacts and packages: a file each. */
const freeFilesMin = 64;

const durabilityTexts: Readonly<Record<string, { readonly text: string; readonly isWhole: boolean }>> = {
  'delete-extra': {
    text: 'rollback journal, synchronous EXTRA: what was reported survives a power cut',
    isWhole: true,
  },
  'delete-full': {
    text:
      'rollback journal, synchronous FULL: survives a kill at any moment, but a power cut may undo the last commit ' +
      'after it was reported; delete-extra gives that too',
    isWhole: false,
  },
  'wal-full': { text: 'write-ahead log, synchronous FULL: what was reported survives a power cut', isWhole: true },
};

/** Of a directory that is not there only where it would be. */
export async function checkData(context: Context): Promise<readonly Check[]> {
  const { data } = context;
  const mount = mountOf(data);
  if (!existsSync(data)) {
    const text = `there is none at ${data}; \`package install\`, \`run\` or \`serve\` makes it, --data names another`;
    const absent: Check = { name: 'data directory', state: 'warning', text, facts: { data, exists: false } };
    return [absent, checkFileSystem(data, mount)];
  }
  const onStorage = [checkFileSystem(data, mount), checkSpace(data), await checkProbe(context)];
  try {
    const reader = await context.storage.openReader({ data });
    try {
      const holder = await checkHolder(context);
      const runDirectory = runDirectoryFor(context, reader.holder);
      const attempts = await checkAttempts(context, runDirectory);
      return [
        ...onStorage,
        await checkConfig(context, reader),
        ...checkDatabase(reader),
        await checkSetAside(reader),
        await checkPackages(context, reader),
        ...attempts,
        holder,
      ];
    } finally {
      reader.close();
    }
  } catch (error) {
    return [...onStorage, checkUnreadable(error), await checkHolder(context)];
  }
}

function checkFileSystem(data: string, mount: Mount | null): Check {
  const name = 'file system';
  const facts = { data, mount };
  if (mount === null) {
    return { name, state: 'unknown', text: `${data}: /proc/self/mountinfo does not tell`, facts };
  }
  const place = `${data} is on ${mount.type} (${mount.source}, at ${mount.mountPoint})`;
  if (mount.isReadOnly) {
    return { name, state: 'bad', text: `${place}, which is read-only: name another directory with --data`, facts };
  }
  if (isMemoryBacked(mount)) {
    return { name, state: 'warning', text: `${place}: in memory, so everything is gone at the next reboot`, facts };
  }
  if (isOnNetwork(mount)) {
    return { name, state: 'warning', text: `${place}: over a network, where locks and syncs may not hold`, facts };
  }
  return { name, state: 'ok', text: place, facts };
}

function checkSpace(data: string): Check {
  const name = 'space';
  try {
    const { bavail, bsize, files, ffree } = statfsSync(data);
    const freeBytes = bavail * bsize;
    // Some file systems have no fixed number of files, and say 0.
    const isShort = freeBytes < freeBytesMin || (files > 0 && ffree < freeFilesMin);
    const free = `${formatBytes(freeBytes)} free`;
    const text = isShort ? `${free}: free some, or runs will be refused when it is used up` : free;
    return { name, state: isShort ? 'warning' : 'ok', text, facts: { freeBytes, files, freeFiles: ffree } };
  } catch (error) {
    return { name, state: 'unknown', text: failureOf(error).message, facts: {} };
  }
}

/** Where a durability is not known yet, the one that a new directory would have. */
async function checkProbe(context: Context): Promise<Check> {
  const { storage, data, clock } = context;
  const name = 'write and sync';
  const durability = context.durability ?? (await readDurability(context)) ?? 'delete-extra';
  const beganMs = clock.observe().uptimeMs;
  try {
    const failure = await storage.tryDurability({ data, durability });
    if (failure === null) {
      const tookMs = clock.observe().uptimeMs - beganMs;
      const text = `${durability} works: a database made, written, synced and read back in ${formatElapsed(tookMs)}`;
      return { name, state: 'ok', text, facts: { durability, tookMs } };
    }
    return describeFailure(name, failure, { durability });
  } catch (error) {
    return describeFailure(name, fromFileError(error, { doing: `write in ${data}`, access: 'writes' }), { durability });
  }
}

async function readDurability({ storage, data }: Context): Promise<string | null> {
  try {
    const reader = await storage.openReader({ data });
    reader.close();
    return reader.info.durability;
  } catch {
    return null;
  }
}

function checkSchema({ info, schemaProblems }: Reader): Check {
  const { engine, capability } = info;
  const problems = schemaProblems();
  const facts = { capability, engine, problems };
  return problems.length === 0
    ? { name: 'schema', state: 'ok', text: `${capability.name} ${capability.version}`, facts }
    : {
        name: 'schema',
        state: 'bad',
        text: `is not as this program made it: ${problems.join('; ')}; restore a backup`,
        facts,
        exitCode: exitCodes.damaged,
      };
}

function checkDatabase(reader: Reader): readonly Check[] {
  const { profile, durability } = reader.info;
  if (reader.configError !== null) {
    const text = 'not known: config.json does not tell';
    return [checkSchema(reader), { name: 'durability', state: 'unknown', text, facts: {} }];
  }
  const { text, isWhole } = durabilityTexts[durability] ?? { text: 'unknown', isWhole: false };
  return [
    checkSchema(reader),
    {
      name: 'durability',
      state: isWhole ? 'ok' : 'warning',
      text: `profile ${profile}, ${durability}: ${text}`,
      facts: { profile, durability },
    },
  ];
}

async function checkSetAside(reader: Reader): Promise<Check> {
  const runs = await reader.read(read('allSetAside', { limit: limits.pageMax }));
  const name = 'damaged runs';
  if (runs.length === 0) {
    return { name, state: 'ok', text: 'none was set aside; `verify` looks at all of them', facts: { runs } };
  }
  const more = runs.length === limits.pageMax ? ' at least' : '';
  const listed = runs.map(({ runId, summary }) => `${runId} (${summary})`).join('; ');
  const text = `${formatCount(runs.length, 'run')}${more} set aside: ${listed}; look at them with \`verify RUN\``;
  return { name, state: 'bad', text, facts: { runs }, exitCode: exitCodes.damaged };
}

async function checkHolder({ storage, data, clock }: Context): Promise<Check> {
  const name = 'holder';
  try {
    const holder = await storage.readHolder(data);
    if (holder === null) {
      return {
        name,
        state: 'ok',
        text: 'nobody holds the directory: runs move only while one does',
        facts: { holder },
      };
    }
    const { pid, command, startedAtMs, socket } = holder;
    const age = formatElapsed(clock.observe().wallMs - startedAtMs);
    const via = socket === null ? 'without a socket' : `reached at ${socket}`;
    const text = `process ${pid} (${command}) since ${formatTime(startedAtMs)}, for ${age}, ${via}`;
    return { name, state: 'ok', text, facts: { holder } };
  } catch (error) {
    return { name, state: 'unknown', text: failureOf(error).message, facts: {} };
  }
}

function checkUnreadable(error: unknown): Check {
  const isAbsent = isEdgeError(error) && error.code === 'not-found';
  const check = describeFailure('database', error, {});
  return isAbsent ? { ...check, state: 'warning' } : check;
}

function describeFailure(name: string, error: unknown, facts: Check['facts']): Check {
  const { code, message, hint, exitCode } = failureOf(error);
  return {
    name,
    state: 'bad',
    text: `${code}: ${message}; ${withoutDoctor(hint)}`,
    facts: { ...facts, code },
    exitCode,
  };
}

/** Who reads this has called it already. */
function withoutDoctor(hint: string): string {
  return hint
    .replace(/^run `doctor`(?:;|, and) /, '')
    .replace(', `doctor`', '')
    .replace(' if it says that the file is damaged', '');
}
