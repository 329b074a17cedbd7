// Looks at a command before it is launched, so that a start that must fail is told apart and explained: a shell has
// only 126 and 127 for all of it. Answers with data, never an exception; what changes between this look and the exec
// still ends as 126 or 127, with the shell's own words in the output.
import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { limits } from '../core/limits.ts';
import { readProgramFile } from './program-file.ts';
import { errnoOf, nullUnlessShort } from './shortage.ts';

export type SpawnFailure = { readonly kind: 'spawn-failed'; readonly errorCode: string; readonly errorSummary: string };

export type PreflightInput = {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly arch: string;
};

export type PreflightOutcome = { readonly kind: 'ready'; readonly argv: readonly string[] } | SpawnFailure;

export const defaultSearchPath = '/usr/sbin:/usr/bin:/sbin:/bin';
const shellPath = '/bin/sh';
const textBytesMax = 300;
// The launcher's own few words on the way to the exec, and the kernel's.
const argumentsMarginBytes = 8192;
const pointerBytes = 8;

/**
 * Whether this command can be started, and if so its argument list with the program as a path (a bare name is searched
 * in the command's own PATH, a text without `#!` given to /bin/sh).
 */
export function preflight(input: PreflightInput): PreflightOutcome {
  const failure = checkWords(input) ?? checkSizes(input) ?? checkDirectory(input.cwd);
  if (failure !== null) {
    return failure;
  }
  const [name = '', ...rest] = input.argv;
  const found = findProgram(name, input);
  return 'kind' in found ? found : checkProgram(found.program, rest, input);
}

/** A failed start as data, its summary within its bound. */
export function spawnFailed(errorCode: string, errorSummary: string): SpawnFailure {
  const bytes = Buffer.from(errorSummary);
  const isLong = bytes.length > limits.errorSummaryBytesMax;
  const cut = isLong ? `${bytes.toString('utf8', 0, limits.errorSummaryBytesMax - 8).replace(/\uFFFD+$/, '')}…` : null;
  return { kind: 'spawn-failed', errorCode, errorSummary: cut ?? errorSummary };
}

/** Text of a user for a message: bounded, and no control character reaches a terminal. */
function show(text: string): string {
  const printable = JSON.stringify(text.length > textBytesMax ? `${text.slice(0, textBytesMax)}…` : text);
  return `\`${printable.slice(1, -1)}\``;
}

function checkWords({ argv, env }: PreflightInput): SpawnFailure | null {
  if (argv[0] === undefined || argv[0] === '') {
    return spawnFailed('invalid_command', 'the command is empty');
  }
  if (argv.some((word) => word.includes('\0'))) {
    return spawnFailed('invalid_command', 'an argument has a NUL character, which no program can be given');
  }
  for (const [name, value] of Object.entries(env)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      return spawnFailed('invalid_environment', `${show(name)} is no name of an environment variable`);
    }
    if (value.includes('\0')) {
      return spawnFailed('invalid_environment', `the value of ${name} has a NUL character`);
    }
  }
  return null;
}

/** The kernel's two bounds: 128 KiB a string with its NUL, and a quarter of the stack (at most 6 MiB) for all. */
function checkSizes({ argv, env }: PreflightInput): SpawnFailure | null {
  const words = [
    ...argv.map((word, index) => ({ what: `argument ${index}`, bytes: Buffer.byteLength(word) })),
    ...Object.entries(env).map(([name, value]) => ({
      what: `environment variable ${name}`,
      bytes: Buffer.byteLength(name) + 1 + Buffer.byteLength(value),
    })),
  ];
  const longest = words.reduce((one, other) => (other.bytes > one.bytes ? other : one));
  if (longest.bytes > limits.argumentBytesMax) {
    const bound = `at most ${limits.argumentBytesMax} are possible`;
    return spawnFailed('argument_too_long', `${longest.what} takes ${longest.bytes} bytes; ${bound}`);
  }
  const bytes = words.reduce((sum, word) => sum + word.bytes + 1 + pointerBytes, argumentsMarginBytes);
  const bytesMax = bytes <= limits.argumentBytesMax ? bytes : readArgumentsBytesMax();
  return bytes > bytesMax
    ? spawnFailed(
        'argument_too_long',
        `arguments and environment take ${bytes} bytes; at most ${bytesMax} may; the largest is ${longest.what}`,
      )
    : null;
}

function readArgumentsBytesMax(): number {
  const mib = 1024 * 1024;
  const row = /^Max stack size\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
  const stackBytes = row === undefined || row === 'unlimited' ? 24 * mib : Number(row);
  return Math.max(128 * 1024, Math.min(6 * mib, Math.floor(stackBytes / 4)));
}

function checkDirectory(cwd: string): SpawnFailure | null {
  try {
    if (!statSync(cwd).isDirectory()) {
      return spawnFailed('directory_not_found', `the working directory ${show(cwd)} is not a directory`);
    }
    accessSync(cwd, constants.X_OK);
    return null;
  } catch (error) {
    const code = errnoOf(error);
    return code === 'ENOENT' || code === 'ENOTDIR'
      ? spawnFailed('directory_not_found', `the working directory ${show(cwd)} does not exist`)
      : spawnFailed('permission_denied', `the working directory ${show(cwd)} cannot be entered (${code})`);
  }
}

function findProgram(name: string, { env, cwd }: PreflightInput): { readonly program: string } | SpawnFailure {
  if (name.includes('/')) {
    return { program: name };
  }
  const searchPath = env['PATH'] ?? defaultSearchPath;
  const candidates = searchPath.split(':').map((folder) => path.join(folder === '' ? '.' : folder, name));
  const isProgram = (candidate: string) => inspectPath(path.resolve(cwd, candidate)) === 'executable';
  const program = candidates.find(isProgram);
  if (program !== undefined) {
    return { program: path.resolve(cwd, program) };
  }
  const denied = candidates.find((candidate) => inspectPath(path.resolve(cwd, candidate)) === 'denied');
  return denied === undefined
    ? spawnFailed('command_not_found', `there is no command ${show(name)} in PATH (${show(searchPath)})`)
    : spawnFailed('permission_denied', `${show(denied)} may not be executed`);
}

function inspectPath(file: string): 'executable' | 'directory' | 'special' | 'denied' | 'missing' {
  try {
    const stats = statSync(file);
    // A FIFO must not even be opened: who looks into it would wait for a writer.
    if (!stats.isFile()) {
      return stats.isDirectory() ? 'directory' : 'special';
    }
    accessSync(file, constants.X_OK);
    return 'executable';
  } catch (error) {
    const code = errnoOf(error);
    return code === 'EACCES' || code === 'EPERM' ? 'denied' : 'missing';
  }
}

function checkProgram(program: string, rest: readonly string[], { cwd, arch }: PreflightInput): PreflightOutcome {
  const file = path.resolve(cwd, program);
  switch (inspectPath(file)) {
    case 'missing':
      return spawnFailed('command_not_found', `the command ${show(program)} does not exist`);
    case 'directory':
      return spawnFailed('permission_denied', `${show(program)} is a directory`);
    case 'special':
      return spawnFailed('permission_denied', `${show(program)} is no regular file`);
    case 'denied':
      return spawnFailed('permission_denied', `${show(program)} may not be executed: chmod +x, and no noexec mount`);
    case 'executable':
      break;
  }
  const ready = { kind: 'ready', argv: [program, ...rest] } as const;
  const content = inspectContent(file, arch);
  switch (content?.kind) {
    case 'interpreted':
      return checkInterpreter({ program, interpreter: content.interpreter, cwd }) ?? ready;
    case 'shell-text':
      return { kind: 'ready', argv: [shellPath, program.startsWith('-') ? `./${program}` : program, ...rest] };
    case 'foreign':
      return spawnFailed('exec_format', `${show(program)} cannot be executed: ${content.what}`);
    case 'native':
      return checkLoader(program, content.loader) ?? ready;
    case undefined:
      return ready;
  }
}

/** Null where the file may be executed but not be read, or makes no sense: the kernel decides. */
function inspectContent(file: string, arch: string): ReturnType<typeof readProgramFile> | null {
  try {
    return readProgramFile(file, arch);
  } catch (error) {
    return nullUnlessShort(error);
  }
}

type Interpreted = { readonly program: string; readonly interpreter: string; readonly cwd: string };

function checkInterpreter({ program, interpreter, cwd }: Interpreted): SpawnFailure | null {
  if (interpreter.includes('\r')) {
    const lines = 'its lines end in CRLF as on Windows; convert them to LF';
    return spawnFailed(
      'interpreter_not_found',
      `${show(program)} asks for the interpreter ${show(interpreter)}: ${lines}`,
    );
  }
  const state = interpreter === '' ? 'missing' : inspectPath(path.resolve(cwd, interpreter));
  if (state === 'executable') {
    return null;
  }
  const what = `${show(program)} asks for the interpreter ${show(interpreter)}, which`;
  return state === 'missing'
    ? spawnFailed('interpreter_not_found', `${what} does not exist`)
    : spawnFailed('permission_denied', `${what} may not be executed`);
}

function checkLoader(program: string, loader: string | null): SpawnFailure | null {
  if (loader === null || inspectPath(loader) !== 'missing') {
    return null;
  }
  const what = `${show(program)} asks for the loader ${show(loader)}, which does not exist`;
  return spawnFailed('interpreter_not_found', `${what}: it was built for another system or C library`);
}
