// The file `command` of an attempt: what the launcher's child sources before it execs. Arguments and environment
// reach the command through it, byte for byte, and not through the launcher's own: those are public in `ps` for as
// long as the command runs, a shell drops or rewrites variables that it knows (IFS, PWD, OPTIND, …), and a prefix
// would make a string of the largest size too large. Owns the file's form; the file is written 0600 and goes with the
// attempt's directory.
//
// Its first line is a comment that names the user whom the command runs as, if that is another one: see `readUserName`.
import path from 'node:path';
import { readHead } from './attempt-files.ts';

/** What is left of a task's `nice` and `limits` for the launcher, in the units of `nice` and `ulimit`. */
export type CommandLimits = {
  readonly memoryBytes: number | null;
  readonly cpuMs: number | null;
  readonly files: number | null;
};

/** Words that run the words after them as another user, and then are that process. */
export type UserPrefix = (words: readonly string[]) => string[];

export type CommandFileInput = {
  /** The first one is a path: nothing is searched for any more. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly nice: number | null;
  readonly limits: CommandLimits | null;
  /** Null: as the runtime itself. */
  readonly user: { readonly name: string; readonly prefix: UserPrefix } | null;
  /** Octal, as the runtime itself was started with. */
  readonly mask: string;
  readonly envPath: string;
  /** Needed for a `nice` of its own, and for a command whose path has an `=`. */
  readonly nicePath: string | null;
};

/** A word for a POSIX shell that means exactly these characters. */
export function quoteWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The words that the launcher execs. */
export function buildCommandWords(input: CommandFileInput): string[] {
  const { nicePath, envPath } = input;
  const [command = '', ...rest] = input.argv;
  // Neither `env` nor `nice` may take a relative path for an option, and `env` takes what has an `=` for a variable.
  const program = command.startsWith('/') || command.startsWith('.') ? command : `./${command}`;
  const guard = program.includes('=') && nicePath !== null ? [nicePath, '-n', '0'] : [];
  const variables = Object.entries(input.env).map(([name, value]) => `${name}=${value}`);
  const words = [envPath, '-i', ...variables, ...guard, program, ...rest];
  const asUser = input.user === null ? words : input.user.prefix(words);
  return input.nice === null || nicePath === null ? asUser : [nicePath, '-n', `${input.nice}`, ...asUser];
}

export function buildCommandFile(input: CommandFileInput): string {
  const lines = [
    ...(input.user === null ? [] : [`# user ${input.user.name}`]),
    `cd -P ${quoteWord(input.cwd)} || exit 1`,
    ...buildLimits(input.limits),
    `mask=${quoteWord(input.mask)}`,
    ['set', '--', ...buildCommandWords(input).map(quoteWord)].join(' '),
  ];
  return `${lines.join('\n')}\n`;
}

/** Of CPU time, the soft limit gives SIGXCPU, which says what happened; the hard one a second later only KILL. */
function buildLimits(limits: CommandLimits | null): string[] {
  if (limits === null) {
    return [];
  }
  const { memoryBytes, cpuMs, files } = limits;
  const cpuSeconds = cpuMs === null ? 0 : Math.max(1, Math.ceil(cpuMs / 1000));
  return [
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
