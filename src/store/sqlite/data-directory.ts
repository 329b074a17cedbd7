// The data directory as the store sees it: its paths, the settings fixed in config.json, and the marker that tells a
// fresh directory from one that lost its database. Looks at the database with `stat` alone: closing it through `fs`
// would drop the locks that SQLite holds on it.
import { chmodSync, lstatSync, readdirSync, realpathSync, type Stats } from 'node:fs';
import path from 'node:path';
import { assert, EdgeError, type Mistake } from '../../core/errors.ts';
import { fileErrorCode, fromFileError } from '../../core/file-error.ts';
import { makeDirectories } from '../make-directories.ts';
import { readRegularFile } from '../regular-file.ts';
import { syncDirectory, writeDurably } from './durable-file.ts';
import { type AskedSettings, isDurability, isProfile, type StorageSettings } from './profile.ts';

export type DataPaths = {
  readonly data: string;
  readonly database: string;
  readonly lock: string;
  readonly holder: string;
  readonly config: string;
  readonly marker: string;
};

/** The paths of a data directory whose own path is absolute and without links. Looks at nothing. */
export function dataPaths(data: string): DataPaths {
  return {
    data,
    database: path.join(data, 'qinglong.db'),
    lock: path.join(data, 'lock.db'),
    holder: path.join(data, 'holder.json'),
    config: path.join(data, 'config.json'),
    marker: path.join(data, 'qinglong.db.marker'),
  };
}

/**
 * Makes the directory (0700) where it is missing, and gives its paths with links in them followed. An empty directory
 * becomes 0700 too; one that holds anything keeps its mode, as it may be shared. Throws `invalid`, `full`,
 * `unavailable`.
 */
export function makeDataDirectory(data: string): DataPaths {
  assert(path.isAbsolute(data), 'the data directory is an absolute path');
  try {
    const madePath = makeDirectories(data);
    if (madePath !== null) {
      syncMade({ madePath, data });
    } else if (readdirSync(data).length === 0) {
      chmodSync(data, 0o700);
    }
    return dataPaths(realpathSync(data));
  } catch (error) {
    if (fileErrorCode(error) === 'EEXIST') {
      throw new EdgeError('invalid', `${data} is not a directory`, { cause: error, hint: 'name a directory' });
    }
    throw fromFileError(error, { doing: `make the data directory ${data}`, access: 'writes' });
  }
}

// `mkdir -p` may have made several: each name is made durable in its parent.
function syncMade({ madePath, data }: { readonly madePath: string; readonly data: string }): void {
  for (let made = data; made.length >= madePath.length; made = path.dirname(made)) {
    syncDirectory(path.dirname(made));
  }
}

/** The directory of a store that must be there already. Throws `not-found`. */
export function findDataDirectory(data: string): DataPaths {
  assert(path.isAbsolute(data), 'the data directory is an absolute path');
  try {
    const paths = dataPaths(realpathSync(data));
    if (statOf(paths.config) !== null || statOf(paths.database) !== null || statOf(paths.marker) !== null) {
      return paths;
    }
  } catch (error) {
    if (fileErrorCode(error) !== 'ENOENT') {
      throw fromFileError(error, { doing: `look at the data directory ${data}`, access: 'reads' });
    }
  }
  throw new EdgeError('not-found', `there is no data directory at ${data}`, {
    hint: 'name another one with --data; `package install DIR`, `run DIR` and `serve` make one',
  });
}

/** What a path is, links not followed; null where there is nothing. Opens nothing. */
export function statOf(file: string): Stats | null {
  return lstatSync(file, { throwIfNoEntry: false }) ?? null;
}

/** Whether a path still leads to the file that it led to at the look `before`. False where that cannot be told. */
export function isStillFile(file: string, before: Stats | null): boolean {
  try {
    const now = statOf(file);
    return now !== null && now.dev === before?.dev && now.ino === before.ino;
  } catch {
    return false;
  }
}

/** Reads `profile` and `durability` from config.json; null for what it does not say. Throws `invalid`. */
export function readSettings(paths: DataPaths): AskedSettings {
  const { profile = null, durability = null } = readConfig(paths);
  if ((profile === null || isProfile(profile)) && (durability === null || isDurability(durability))) {
    return { profile, durability };
  }
  const mistakes = [
    ...(profile === null || isProfile(profile) ? [] : [mistake(paths, 'profile', 'must be edge or standalone')]),
    ...(durability === null || isDurability(durability)
      ? []
      : [mistake(paths, 'durability', 'must be delete-extra, delete-full or wal-full')]),
  ];
  const told = mistakes.map(({ path: key, rule }) => `${key} ${rule}`).join(', and ');
  throw new EdgeError('invalid', `${paths.config}: ${told}`, { hint: 'put back what it said before', mistakes });
}

function mistake(paths: DataPaths, key: string, rule: string): Mistake {
  return { file: paths.config, path: key, line: null, rule };
}

/** Of a directory with a database whose config.json has lost them: nobody may hold it, as they cannot be guessed. */
export function lostSettings(paths: DataPaths): EdgeError {
  return new EdgeError('damaged', `${paths.config} no longer says profile and durability`, {
    hint: 'put back what the data directory was made with, such as {"profile":"edge","durability":"delete-extra"}',
  });
}

/** Adds the settings to config.json, durably; whatever else it says stays. */
export function fixSettings(paths: DataPaths, { profile, durability }: StorageSettings): void {
  const config = readConfig(paths);
  if (config['profile'] !== profile || config['durability'] !== durability) {
    const text = JSON.stringify({ ...config, profile, durability }, null, 2);
    writeDurably({ path: paths.config, text: `${text}\n` });
  }
}

/**
 * config.json of a directory as it is, for whoever owns the other settings in it; null where there is none. Throws
 * `invalid` for what is no JSON object.
 */
export function readConfigFile(
  data: string,
): { readonly path: string; readonly values: Readonly<Record<string, unknown>> } | null {
  const paths = dataPaths(data);
  return isThere(paths.config) ? { path: paths.config, values: readConfig(paths) } : null;
}

function isThere(file: string): boolean {
  try {
    return statOf(file) !== null;
  } catch (error) {
    throw fromFileError(error, { doing: `look at ${file}`, access: 'reads' });
  }
}

function readConfig(paths: DataPaths): Readonly<Record<string, unknown>> {
  const config = readJson(paths.config);
  if (config === null) {
    return {};
  }
  if (typeof config === 'object' && !Array.isArray(config)) {
    return config as Record<string, unknown>;
  }
  throw new EdgeError('invalid', `${paths.config} is not a JSON object`, {
    hint: 'mend it, such as {"profile":"edge","durability":"delete-extra"}',
  });
}

/** A small JSON file; null where there is none, undefined where it is not JSON. Throws `invalid` for no file. */
export function readJson(file: string): unknown {
  let text: string;
  try {
    text = readRegularFile(file, 'put back the file that was there').toString('utf8');
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') {
      return null;
    }
    throw fromFileError(error, { doing: `read ${file}`, access: 'reads' });
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// The marker is written twice. Before the database is made: whoever finds it so may start again. After it is complete:
// from then on a database that is missing or has 0 bytes, which SQLite would open as an empty one, was lost.
const markerTexts = { making: '{"database":"making"}\n', made: '{"database":"made"}\n' } as const;

export function writeMarker(paths: DataPaths, state: keyof typeof markerTexts): void {
  writeDurably({ path: paths.marker, text: markerTexts[state] });
}

/**
 * `fresh`: nothing there yet, or its making was interrupted. `made`: a whole database should be there, and a file of
 * more than 0 bytes is. Throws `damaged` where the database was lost, and where it came without its marker.
 */
export function databaseState(paths: DataPaths): 'fresh' | 'made' {
  const size = statOf(paths.database)?.size ?? 0;
  const marker = readJson(paths.marker);
  const state = marker !== null && typeof marker === 'object' && 'database' in marker ? marker.database : null;
  if (state === 'making' || (marker === null && size === 0)) {
    return 'fresh';
  }
  if (state === 'made' && size > 0) {
    return 'made';
  }
  if (size > 0) {
    throw new EdgeError('damaged', `${paths.database} has no valid marker beside it`, {
      hint: `bring back the whole data directory, ${path.basename(paths.marker)} included`,
    });
  }
  throw new EdgeError('damaged', `the database is lost: ${paths.database} is missing or has 0 bytes`, {
    hint: 'restore a backup; to start anew without any history, use another data directory',
  });
}
