// How a command comes to run as another user: by a small tool of the system that changes to it and then is a shell,
// which makes the command's variables and becomes the command (command-file.ts).
// The launcher's child execs it after `taken` was created, so that the attempt's directory stays the runtime's own.
//
// What a tool of some name does differs from system to system (BusyBox has a `setpriv` that cannot do this, util-linux
// a `su` that stays as parent and changes the exit code), and after `taken` its failure would pass for the command's
// own. So each is tried once for each user, and must be found to have left a process that is exactly as it should be:
// the same process of the same session, with these numbers and no others, with no signal ignored or blocked.
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { inputShell, type UserPrefix } from './command-file.ts';
import { findTool } from './launcher-tools.ts';
import { type SpawnFailure, spawnFailed } from './preflight.ts';
import { readProcess } from './session.ts';
import { isShortage } from './shortage.ts';
import type { UserIdentity } from './user.ts';

type Tool = {
  readonly name: string;
  readonly prefix: (tool: string, user: UserIdentity & { readonly name: string }) => readonly string[];
  /** It takes numbers that /etc/passwd does not have. */
  readonly isForNumbers: boolean;
};

// In this order: util-linux (nearly every distribution), then the two that BusyBox has (OpenWrt, Alpine).
const tools: readonly Tool[] = [
  {
    name: 'setpriv',
    isForNumbers: true,
    prefix: (tool, { uid, gid, groupIds }) => {
      const options = [`--reuid=${uid}`, `--regid=${gid}`, `--groups=${groupIds.join(',')}`];
      return [tool, ...options, '--', ...inputShell];
    },
  },
  {
    name: 'start-stop-daemon',
    isForNumbers: false,
    // With a file of a process id that never is, it does not look for the program among what runs already.
    prefix: (tool, { name }) => {
      const [shell = '', ...rest] = inputShell;
      return [tool, '-S', '-p', '/proc/none', '-c', name, '-x', shell, '--', ...rest];
    },
  },
  {
    name: 'su',
    isForNumbers: false,
    prefix: (tool, { name }) => [tool, '-s', '/bin/sh', '-c', `exec ${inputShell.join(' ')}`, '--', name],
  },
];

const trialScript = `
read -r stat </proc/self/stat
set -- 1 2 \${stat##*) }
echo "Session: $6"
while read -r name value; do
  case $name in Pid: | Uid: | Gid: | Groups: | SigBlk: | SigIgn:) echo "$name" $value ;; esac
done </proc/self/status
export -p`;
const trialMsMax = 2_000;
const wordsShownMax = 200;

/**
 * The words that make a command run as this user, or why there are none. Starts the tool and waits for it: some
 * milliseconds, so whoever calls this keeps the answer. Throws where the system is short of processes or descriptors.
 */
export function findUserPrefix(user: UserIdentity, toolsPath: string): UserPrefix | SpawnFailure {
  const shown = `\`${user.name ?? user.uid}\``;
  const failures: string[] = [];
  for (const { name, prefix, isForNumbers } of tools) {
    const tool = findTool(name, toolsPath);
    if (tool === null || (user.name === null && !isForNumbers)) {
      continue;
    }
    const words = prefix(tool, { ...user, name: user.name ?? `${user.uid}` });
    const outcome = tryPrefix(words, user);
    if (typeof outcome === 'object') {
      return { words, ...outcome };
    }
    failures.push(`${tool}: ${outcome}`);
  }
  const remedy = 'install setpriv (util-linux)';
  return failures.length === 0
    ? spawnFailed('user_tool_missing', `nothing here can run a command as ${shown}: ${remedy}`)
    : spawnFailed('user_tool_failed', `nothing here can run a command as ${shown}: ${failures.join('; ')}; ${remedy}`);
}

/** A tool that reads nothing makes an error of its input. */
function describeEnd({ status, signal, error }: SpawnSyncReturns<string>): string {
  return status === null ? (error?.message ?? `${signal}`) : `status ${status}`;
}

/** What it left the process with, or how that is not as it should be. */
function tryPrefix(
  [tool = '', ...rest]: readonly string[],
  user: UserIdentity,
): Pick<UserPrefix, 'addedNames'> | string {
  const result = spawnSync(tool, rest, {
    input: trialScript,
    cwd: '/',
    env: { LC_ALL: 'C' },
    timeout: trialMsMax,
    killSignal: 'SIGKILL',
    encoding: 'utf8',
  });
  if (isShortage(result.error)) {
    throw result.error;
  }
  const { uid, gid, groupIds } = user;
  const expected = [
    `Session: ${readProcess(process.pid)?.sessionId}`,
    `Pid: ${result.pid}`,
    `Uid: ${uid} ${uid} ${uid} ${uid}`,
    `Gid: ${gid} ${gid} ${gid} ${gid}`,
    `Groups: ${groupIds.join(' ')}`,
    'SigBlk: 0000000000000000',
    'SigIgn: 0000000000000000',
  ];
  const said = result.stdout?.split('\n').filter((line) => line !== '') ?? [];
  const lines = said.filter((line) => !line.startsWith('export '));
  if (result.status !== 0 || lines.length < expected.length) {
    const [word = ''] = `${result.stderr ?? ''}`.trim().split('\n', 1);
    return word.slice(0, wordsShownMax) || describeEnd(result);
  }
  const wrong = lines.find((line) => !expected.includes(line));
  return wrong === undefined
    ? { addedNames: said.flatMap((line) => /^export ([A-Za-z_][A-Za-z0-9_]*)/.exec(line)?.[1] ?? []) }
    : `leaves the command with ${wrong.replaceAll(/\s+/g, ' ')}`;
}
