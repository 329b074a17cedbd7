// The file `command` of an attempt: what the launcher's child sources before it execs. Arguments and environment
// reach the command through it, byte for byte. Owns the file's form; it is written 0600 and goes with the attempt's
// directory.
//
// A value may be a password, and whoever is on the machine may read every process's arguments in /proc. So the shell
// exports the variables itself, and no argument has a value: none of a `NAME=value` prefix, of `env`, of a tool. What
// a shell takes for its own (`isShellVariable`) cannot be exported by it and does go through `env`, for all to see;
// the manifest lets no setting fill one.
//
// A tool on the way, `nice` or one that changes the user, must not get the command's variables (LD_PRELOAD, as root).
// Then the shell of the launcher's child execs it with its own, and behind it another shell, which has this same file
// as its standard input, makes the variables and becomes the command.
//
// Its first line is a comment that names the user whom the command runs as, if that is another one: see `readUserName`.
import path from 'node:path';
import { isShellVariable } from '../core/manifest-rules.ts';
import { launcherVariable, readHead } from './attempt-files.ts';

/** What is left of a task's `nice` and `limits` for the launcher, in the units of `nice` and `ulimit`. */
export type CommandLimits = {
  readonly memoryBytes: number | null;
  readonly cpuMs: number | null;
  readonly files: number | null;
};

/** How a command comes to run as another user. */
export type UserPrefix = {
  /** They run the shell as that user, in the same process; it reads its standard input. */
  readonly words: readonly string[];
  /** The variables that this shell has then, whatever was given to the tool. */
  readonly addedNames: readonly string[];
};

export type CommandFileInput = {
  /** The first one is a path: nothing is searched for any more. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly nice: number | null;
  readonly limits: CommandLimits | null;
  /** Null: as the runtime itself. */
  readonly user: { readonly name: string; readonly prefix: UserPrefix | null } | null;
  /** Octal, as the runtime itself was started with. */
  readonly mask: string;
  /** Where they are not there, `findMissingTool` has said so. */
  readonly envPath: string | null;
  readonly nicePath: string | null;
};

/** A shell that reads its standard input; what every system has. */
export const inputShell: readonly string[] = ['/bin/sh', '-s'];

// What the launcher is started with, and what a shell exports by itself.
const launcherNames = ['PATH', 'LC_ALL', launcherVariable, 'PWD', 'OLDPWD', 'SHLVL'];

/** A word for a POSIX shell that means exactly these characters. */
export function quoteWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function quoteWords(words: readonly string[]): string {
  return words.map(quoteWord).join(' ');
}

/** The tool without which this command cannot be started; null where there is all that it takes. */
export function findMissingTool(input: CommandFileInput): 'env' | 'nice' | null {
  const isThroughEnv = Object.keys(input.env).some(isShellVariable);
  if (isThroughEnv && input.envPath === null) {
    return 'env';
  }
  const needsNice = input.nice !== null || (isThroughEnv && input.argv[0]?.includes('=') === true);
  return needsNice && input.nicePath === null ? 'nice' : null;
}

/** The words of the command itself. */
function buildProgramWords({ argv, env, envPath, nicePath }: CommandFileInput): string[] {
  const [command = '', ...rest] = argv;
  // None of shell, `env` and `nice` may take a relative path for an option or search it.
  const program = command.startsWith('/') || command.startsWith('.') ? command : `./${command}`;
  const shellVariables = Object.entries(env).filter(([name]) => isShellVariable(name));
  if (shellVariables.length === 0 || envPath === null) {
    return [program, ...rest];
  }
  // `env` takes what has an `=` for a variable.
  const guard = program.includes('=') && nicePath !== null ? [nicePath, '-n', '0'] : [];
  return [envPath, ...shellVariables.map(([name, value]) => `${name}=${value}`), ...guard, program, ...rest];
}

/**
 * Makes the shell's environment the command's. A bash has a word about a locale that it does not know, which must not
 * come to the notes.
 */
function buildVariables(env: CommandFileInput['env'], addedNames: readonly string[]): string[] {
  const variables = Object.entries(env).filter(([name]) => !isShellVariable(name));
  const names = new Set(variables.map(([name]) => name));
  const unset = [...new Set([...launcherNames, ...addedNames])].filter((name) => !names.has(name));
  const words = quoteWords(variables.map(([name, value]) => `${name}=${value}`));
  return [`unset ${unset.join(' ')}`, ...(words === '' ? [] : [`export ${words} 2>/dev/null || exit 1`])];
}

export function buildCommandFile(input: CommandFileInput): string {
  const { user, nice, nicePath } = input;
  const tools = [
    ...(nice === null || nicePath === null ? [] : [nicePath, '-n', `${nice}`]),
    ...(user?.prefix?.words ?? []),
  ];
  const start = [`cd -P ${quoteWord(input.cwd)} || exit 1`, ...buildLimits(input.limits)];
  const variables = buildVariables(input.env, user?.prefix?.addedNames ?? []);
  const program = quoteWords(buildProgramWords(input));
  const give = (words: string) => `set -- "$@" ${quoteWord(input.mask)} ${words}`;
  const shell = user?.prefix === undefined || user.prefix === null ? inputShell : [];
  const lines =
    tools.length === 0
      ? [...start, ...variables, give(program)]
      : [
          // The launcher's child comes with arguments, the shell behind the tools without.
          'if [ $# != 0 ]; then',
          'exec <command || exit 1',
          ...start,
          give(quoteWords([...tools, ...shell])),
          'else',
          ...variables,
          `exec ${program} </dev/null`,
          'fi',
        ];
  return `${[...(user === null ? [] : [`# user ${user.name}`]), ...lines].join('\n')}\n`;
}

/**
 * No core file, for it has the variables too: a soft limit, which a command may lift again. Of CPU time, the soft limit
 * gives SIGXCPU, which says what happened; the hard one a second later only KILL.
 */
function buildLimits(limits: CommandLimits | null): string[] {
  const { memoryBytes, cpuMs, files } = limits ?? { memoryBytes: null, cpuMs: null, files: null };
  const cpuSeconds = cpuMs === null ? 0 : Math.max(1, Math.ceil(cpuMs / 1000));
  return [
    'ulimit -S -c 0 || exit 1',
    ...(memoryBytes === null ? [] : [`ulimit -v ${Math.floor(memoryBytes / 1024)} || exit 1`]),
    ...(cpuMs === null ? [] : [`ulimit -S -t ${cpuSeconds} || exit 1`, `ulimit -H -t ${cpuSeconds + 1} || exit 1`]),
    ...(files === null ? [] : [`ulimit -n ${files} || exit 1`]),
  ];
}

/** The user whom an attempt's command was made to run as; null where it was the runtime's own. */
export function readUserName(directory: string): string | null {
  const text = readHead(path.join(directory, 'command'))?.text ?? '';
  return /^# user ([^\n]+)\n/.exec(text)?.[1] ?? null;
}
