// The file `command` of an attempt: what the launcher's child sources before it execs. Arguments and environment
// reach the command through it, byte for byte, and not through the launcher's own: those are public in `ps` for as
// long as the command runs, a shell drops or rewrites variables that it knows (IFS, PWD, OPTIND, …), and a prefix
// would make a string of the largest size too large. Owns the file's form; the file is written 0600 and goes with the
// attempt's directory.

/** What is left of a task's `nice` and `limits` for the launcher, in the units of `nice` and `ulimit`. */
export type CommandLimits = {
  readonly memoryBytes: number | null;
  readonly cpuMs: number | null;
  readonly files: number | null;
};

export type CommandFileInput = {
  /** The first one is a path: nothing is searched for any more. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly nice: number | null;
  readonly limits: CommandLimits | null;
  /** Octal, as the runtime itself was started with. */
  readonly mask: string;
  /** Where `nice` is; needed only for a command whose path has an `=`. */
  readonly nicePath: string | null;
};

/** A word for a POSIX shell that means exactly these characters. */
export function quoteWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The words that the launcher execs. */
export function buildCommandWords(input: CommandFileInput): string[] {
  const [command = '', ...rest] = input.argv;
  // Neither `env` nor `nice` may take a relative path for an option, and `env` takes what has an `=` for a variable.
  const path = command.startsWith('/') || command.startsWith('.') ? command : `./${command}`;
  const guard = path.includes('=') && input.nicePath !== null ? [input.nicePath, '-n', '0'] : [];
  const priority = input.nice === null ? [] : ['nice', '-n', `${input.nice}`];
  const variables = Object.entries(input.env).map(([name, value]) => `${name}=${value}`);
  return [...priority, 'env', '-i', ...variables, ...guard, path, ...rest];
}

export function buildCommandFile(input: CommandFileInput): string {
  const { limits } = input;
  const memoryKib = limits?.memoryBytes == null ? '' : `${Math.floor(limits.memoryBytes / 1024)}`;
  const cpuSeconds = limits?.cpuMs == null ? '' : `${Math.max(1, Math.ceil(limits.cpuMs / 1000))}`;
  const lines = [
    `directory=${quoteWord(input.cwd)}`,
    `mask=${quoteWord(input.mask)}`,
    `memory_kib=${quoteWord(memoryKib)}`,
    `cpu_seconds=${quoteWord(cpuSeconds)}`,
    `files=${quoteWord(limits?.files == null ? '' : `${limits.files}`)}`,
    ['set', '--', ...buildCommandWords(input).map(quoteWord)].join(' '),
  ];
  return `${lines.join('\n')}\n`;
}
