// What `doctor` says of attempts: those that cannot be decided, what the run directory holds of attempts that nobody
// records any more, and the programs without which no command can be started.
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { limits } from '../core/limits.ts';
import { attemptDirectory, readHead, readReceipt } from '../executor/attempt-files.ts';
import { findLauncherTools, findTool } from '../executor/launcher-tools.ts';
import { defaultSearchPath } from '../executor/preflight.ts';
import { findUser, readUserFiles } from '../executor/user.ts';
import { findUserPrefix } from '../executor/user-prefix.ts';
import { defaultSettings, type RuntimeSettings } from '../runtime/settings.ts';
import type { Check } from './check.ts';
import type { Context } from './command.ts';
import { hintRunId } from './run-id.ts';
import { readSettings } from './session.ts';
import { type ActiveAttempt, collectStatus } from './status-facts.ts';
import { formatCount } from './times.ts';
import { findClosedDirectory, reachHint } from './user-reach.ts';

/** `runDirectory` is where the attempts of the directory are. */
export async function checkAttempts(context: Context, runDirectory: string): Promise<readonly Check[]> {
  const { active } = await collectStatus(context);
  return [checkUndecided(active), checkLeftovers(runDirectory, active)];
}

function checkUndecided(active: readonly ActiveAttempt[]): Check {
  const name = 'attempts';
  const undecided = active.filter(({ look }) => look.state === 'undecidable');
  const facts = { active: active.map(({ look, ...attempt }) => ({ ...attempt, ...look })) };
  if (undecided.length === 0) {
    const text = active.length === 0 ? 'none is without an end' : `${active.length} without an end, each accounted for`;
    return { name, state: 'ok', text, facts };
  }
  const told = undecided.map(({ runId, stepKey, look }) => `step ${stepKey} of run ${hintRunId(runId)}: ${look.why}`);
  const text = `${told.join('; ')}; left as it is until those processes end, or until the next boot; it holds no slot`;
  return { name, state: 'warning', text, facts };
}

type Leftover = { readonly attemptId: string; readonly receipt: 'late' | 'strange' | 'none' };

/**
 * Directories of attempts that have an end, and receipts that are none. A holder that starts looks through them, and
 * keeps what it cannot explain.
 */
function checkLeftovers(runDirectory: string, active: readonly ActiveAttempt[]): Check {
  const name = 'left in the run directory';
  const known = new Set(active.map(({ attemptId }) => attemptId));
  const found = listAttempts(runDirectory).map((attemptId): Leftover => {
    const directory = attemptDirectory(runDirectory, attemptId);
    const isReceipt = readReceipt(directory, attemptId) !== null;
    const text = readHead(path.join(directory, 'receipt'))?.text.trim() ?? '';
    return { attemptId, receipt: isReceipt ? 'late' : text === '' ? 'none' : 'strange' };
  });
  // Of an attempt that is still recorded as running, only a receipt that is none is out of the ordinary.
  const leftovers = found.filter(({ attemptId, receipt }) => !known.has(attemptId) || receipt === 'strange');
  if (leftovers.length === 0) {
    return { name, state: 'ok', text: 'nothing of attempts that have ended', facts: { leftovers } };
  }
  const of = (receipt: Leftover['receipt']) => leftovers.filter((leftover) => leftover.receipt === receipt);
  const parts = [
    tell(of('strange'), 'with a receipt of another shape or of another attempt, which counts as none', runDirectory),
    tell(of('late'), 'with a receipt that came too late to be counted', runDirectory),
    tell(of('none'), 'without a receipt', runDirectory),
  ];
  const text = `${parts.filter((part) => part !== null).join('; ')}; a holder that starts looks through them`;
  return { name, state: 'warning', text, facts: { leftovers } };
}

function tell(leftovers: readonly Leftover[], what: string, runDirectory: string): string | null {
  const [first] = leftovers;
  return first === undefined
    ? null
    : `${formatCount(leftovers.length, 'attempt')} ${what}, such as ${attemptDirectory(runDirectory, first.attemptId)}`;
}

function listAttempts(runDirectory: string): readonly string[] {
  try {
    const names = readdirSync(path.join(runDirectory, 'attempts'));
    return names.filter(
      (name) => /^[A-Za-z0-9][A-Za-z0-9._:-]*$/.test(name) && name.length <= limits.portableIdBytesMax,
    );
  } catch {
    return [];
  }
}

/** Looks in the search path of the launcher, which is not that of this process. */
export async function checkLauncher(context: Context): Promise<readonly Check[]> {
  return [await checkTools(context), checkUsers(context)];
}

async function checkTools(context: Context): Promise<Check> {
  const name = 'launcher';
  const shell = await readShell(context);
  const [program = ''] = shell;
  const shellPath = program.includes('/') ? program : findTool(program, defaultSearchPath);
  const { envPath, nicePath, missingForOutput } = findLauncherTools(defaultSearchPath);
  const facts = { shell, shellPath, envPath, nicePath, missingForOutput, searchPath: defaultSearchPath };
  if (shellPath === null || findTool(path.basename(shellPath), path.dirname(shellPath)) === null) {
    return { name, state: 'bad', text: `there is no ${program}, which runs the launcher: no command can start`, facts };
  }
  const missing = [
    ...(missingForOutput.length === 0
      ? []
      : [`without ${missingForOutput.join(' and ')} commands run, but nothing that they write is kept`]),
    ...(envPath === null ? ['without `env` no task that sets a variable such as IFS or PWD can be started'] : []),
    ...(nicePath === null ? ['without `nice` no task that asks for it can be started'] : []),
  ];
  return missing.length === 0
    ? { name, state: 'ok', text: `${shell.join(' ')}, env, nice, mkfifo, dd and wc are there`, facts }
    : { name, state: 'warning', text: `${missing.join('; ')}: install coreutils, or a BusyBox that has them`, facts };
}

/** Where the settings cannot be read, which is told of them, the default. */
async function readShell(context: Context): Promise<RuntimeSettings['shell']> {
  return await readSettings(context).then(
    ({ shell }) => shell,
    () => defaultSettings('edge').shell,
  );
}

/** Tries it: what a tool of some name does differs from system to system. */
function checkUsers({ data }: Context): Check {
  const name = 'other users';
  if (process.geteuid?.() !== 0) {
    return {
      name,
      state: 'ok',
      text: 'not root: no task that sets `user` can run as somebody else',
      facts: { isRoot: false },
    };
  }
  const user = findUser('nobody', readUserFiles());
  const prefix = user === null ? null : findUserPrefix(user, defaultSearchPath);
  const closed = findClosedDirectory(data);
  const works = prefix !== null && 'words' in prefix;
  if (works && closed !== null) {
    const text = `tasks that set \`user\` cannot reach their files: ${reachHint(closed)}`;
    return { name, state: 'warning', text, facts: { isRoot: true, works: true, closed } };
  }
  if (works) {
    return {
      name,
      state: 'ok',
      text: 'a task that sets `user` runs as that user',
      facts: { isRoot: true, works: true },
    };
  }
  const why = prefix === null ? 'there is no user `nobody` to try it with' : prefix.errorSummary;
  const state = prefix === null ? 'unknown' : 'warning';
  return { name, state, text: `tasks that set \`user\`: ${why}`, facts: { isRoot: true, works: false } };
}
