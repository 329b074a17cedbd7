// The ground that one test command stands on: a temporary folder of its own, given to every test as TMPDIR, and a place
// of its own for tap's fixtures. When the tests are over nothing may be left: no process, no file there, nothing new
// where the product keeps run directories by default. What is left is named, and ended by its id.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  rmSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  commandOf,
  findProcessesOf,
  howItNames,
  killProcess,
  listProcesses,
  type ProcessEntry,
  processKey,
  readProcessEntry,
} from '../edge-evidence/processes.ts';

export type TestGround = {
  readonly folder: string;
  /** What the tests' environment gets. */
  readonly env: Readonly<Record<string, string>>;
  /** What was left, one line each; empty as it should be. Afterwards it is gone. */
  close(): Promise<readonly string[]>;
};

/** Set in the environment of tests: a test command below another one leaves to that one what all of them share. */
const folderVariable = 'QL_TEST_FOLDER';
const fixturesVariable = 'QL_TEST_FIXTURES';
/** A process that outlives its parent by less than this is recognized by what it names. */
const lookEveryMs = 250;
/** A pump ends a moment after the command, a killed process a moment after the signal. */
const settleMsMax = 2_000;

export function isNested(): boolean {
  return process.env[folderVariable] !== undefined;
}

/** Makes the folders and begins to look who is started; `root` is the project's. */
export function openTestGround(root: string): TestGround {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'ql-')));
  // As in /tmp itself, commands that run as another user reach what a test lets them reach.
  chmodSync(folder, 0o711);
  const fixtures = path.join(root, '.tap/fixtures', path.basename(folder));
  mkdirSync(fixtures, { recursive: true });
  const shared = isNested() ? null : listSharedPlaces();
  const witness = watchDescendants();
  return {
    folder,
    env: { TMPDIR: folder, [folderVariable]: folder, [fixturesVariable]: fixtures },
    async close() {
      witness.stop();
      const processes = await endProcesses([folder, fixtures], witness.hasSeen);
      const files = [folder, fixtures].flatMap(listLeft);
      rmSync(folder, { recursive: true, force: true });
      rmSync(fixtures, { recursive: true, force: true });
      removeIfEmpty(path.dirname(fixtures));
      const strays = shared === null ? [] : (await settleStrays(shared)).map((file) => `the file ${file}`);
      return [...processes, ...files, ...strays];
    },
  };
}

/** Notes every descendant of this process, and every member of a session that one of them leads, while it lives. */
function watchDescendants() {
  const seen = new Set<string>();
  const own = readProcessEntry(process.pid)?.sessionId;
  const look = () => {
    const living = listProcesses();
    const byPid = new Map(living.map((entry) => [entry.pid, entry]));
    const isOurs = (entry: ProcessEntry | undefined): boolean =>
      entry !== undefined &&
      (entry.parentPid === process.pid || seen.has(processKey(entry)) || isOurs(byPid.get(entry.parentPid)));
    for (const entry of living) {
      const leader = entry.sessionId === own ? undefined : byPid.get(entry.sessionId);
      if (isOurs(entry) || (leader !== undefined && seen.has(processKey(leader)))) {
        seen.add(processKey(entry));
      }
    }
  };
  const timer = setInterval(look, lookEveryMs);
  return { stop: () => clearInterval(timer), hasSeen: (entry: ProcessEntry) => seen.has(processKey(entry)) };
}

async function endProcesses(
  folders: readonly string[],
  hasSeen: (entry: ProcessEntry) => boolean,
): Promise<readonly string[]> {
  const find = () => {
    const found = folders.flatMap((folder) => findProcessesOf(folder, hasSeen));
    return [...new Map(found.map((entry) => [processKey(entry), entry])).values()];
  };
  for (let waitedMs = 0; waitedMs < settleMsMax && find().length > 0; waitedMs += lookEveryMs) {
    await sleep(lookEveryMs);
  }
  const left = find();
  const lines = left.map((entry) => {
    const how = folders.map((folder) => howItNames(entry, folder)).find((words) => words !== null) ?? null;
    const why = how === null ? 'a test had started it' : `${how} names the tests’ folder`;
    return `process ${entry.pid} of session ${entry.sessionId} (${commandOf(entry)}): ${why}`;
  });
  left.forEach(killProcess);
  return lines;
}

/** What lies directly in a folder, each with how much is below it. */
function listLeft(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true }).map((entry) => {
    const name = path.join(folder, entry.name);
    const below = entry.isDirectory() ? readdirSync(name, { recursive: true }).length : 0;
    return `the ${entry.isDirectory() ? `folder ${name} (${below} below it)` : `file ${name}`}`;
  });
}

function removeIfEmpty(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length === 0) {
    rmdirSync(folder);
  }
}

/** Where run directories are by default (src/runtime/run-directory.ts), two levels deep. */
function listSharedPlaces(): ReadonlySet<string> {
  const places = ['/run/qinglong-edge', `/run/user/${userInfo().uid}`, '/dev/shm'];
  const below = (folder: string): string[] => {
    try {
      return readdirSync(folder).map((name) => path.join(folder, name));
    } catch {
      return [];
    }
  };
  const first = places.flatMap(below);
  return new Set([...first, ...first.flatMap(below)]);
}

/** What others make there goes again while we wait; what a test has left stays. */
async function settleStrays(before: ReadonlySet<string>): Promise<readonly string[]> {
  let strays = findStrays(before);
  for (let waitedMs = 0; waitedMs < settleMsMax && strays.length > 0; waitedMs += lookEveryMs) {
    await sleep(lookEveryMs);
    const now = new Set(findStrays(before));
    strays = strays.filter((file) => now.has(file));
  }
  return strays;
}

/**
 * What is new in the shared places and nobody's: another user of this machine may run the product, or anything else,
 * at the same time. Called when no process of the tests is left.
 */
function findStrays(before: ReadonlySet<string>): readonly string[] {
  const found = [...listSharedPlaces()].filter((file) => !before.has(file));
  const sockets = found.length === 0 ? '' : readFileSync('/proc/net/unix', 'latin1');
  const isHeld = (file: string) =>
    sockets.includes(` ${file}/`) || listProcesses().some((entry) => howItNames(entry, file) !== null);
  const strays = found.filter((file) => !isHeld(file));
  return strays.filter((file) => !strays.includes(path.dirname(file)));
}
