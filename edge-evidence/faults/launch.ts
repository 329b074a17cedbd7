// Starts the product under a limit, as another user, or under a preload, and gives what it answered. Owns the time of
// the processes: whoever does not end within its limit is killed, and that is told. Judges nothing.
import { type ChildProcess, spawn } from 'node:child_process';
import { commonArguments, type Site } from '../operation.ts';

export type Answer = {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
  /** It had to be killed, as it did not end within its limit. */
  readonly isLate: boolean;
};

export type LaunchOptions = {
  /** Words before the program: they end by running what follows them. */
  readonly wrap?: readonly string[];
  readonly nodeArgs?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Runs as this user and group; null as ourselves. */
  readonly userId?: number | null;
  readonly limitMs?: number;
};

export type Launched = {
  readonly process: ChildProcess;
  readonly answered: Promise<Answer>;
  /** Resolves with the first words on its stdout (a daemon is ready), or with its end. */
  readonly spoke: Promise<void>;
  /** On stderr, until now. */
  readonly said: () => string;
};

/** A command that waits for a busy directory gives up after 5 s, and asks for a holder before: 15 s are a hang. */
export const commandMsMax = 20_000;
export const drainMsMax = 60_000;
/** How long a fault lasts under which a daemon waits for better times. */
export const troubledMs = 1_500;
const streamMsMax = 1_000;

/** Starts the command line of the site's bundle. Its environment is small and fixed. */
export function launch(site: Site, words: readonly string[], options: LaunchOptions = {}): Launched {
  return launchNode(site.root, [site.bundle, ...commonArguments(site), ...words], options);
}

/** Starts Node.js in a folder; the rest as `launch`. */
export function launchNode(folder: string, words: readonly string[], options: LaunchOptions = {}): Launched {
  const { wrap = [], nodeArgs = [], env = {}, userId = null, limitMs = commandMsMax } = options;
  const [file = process.execPath, ...rest] = [...wrap, process.execPath, ...nodeArgs, ...words];
  const shell = process.env['QINGLONG_EDGE_SHELL'];
  const child = spawn(file, rest, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      TZ: 'UTC',
      ...(shell === undefined ? {} : { QINGLONG_EDGE_SHELL: shell }),
      ...env,
    },
    ...(userId === null ? {} : { uid: userId, gid: userId }),
  });
  return { process: child, ...follow(child, limitMs) };
}

function follow(child: ChildProcess, limitMs: number): Omit<Launched, 'process'> {
  let [out, err] = ['', ''];
  let isLate = false;
  const spoke = Promise.withResolvers<void>();
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    spoke.resolve();
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const timer = setTimeout(() => {
    isLate = true;
    // A stopped process dies of KILL, and of nothing else.
    child.kill('SIGKILL');
  }, limitMs);
  const answered = new Promise<Answer>((resolve) => {
    const finish = (code: number | null, signal: string | null) => {
      clearTimeout(timer);
      spoke.resolve();
      resolve({ code, signal, out, err, isLate });
    };
    child.once('error', (error) => {
      err += error.message;
      finish(null, 'not started');
    });
    child.once('close', finish);
    // A command that runs on may hold the streams for longer.
    child.once('exit', (code, signal) => void setTimeout(() => finish(code, signal), streamMsMax).unref());
  });
  return { answered, spoke: spoke.promise, said: () => err };
}

/** One command from its start to its end. */
export function call(site: Site, words: readonly string[], options: LaunchOptions = {}): Promise<Answer> {
  return launch(site, words, options).answered;
}

/** Words that run what follows them behind a line of shell, such as a `ulimit`. */
export function behindShell(line: string): readonly string[] {
  return ['/bin/sh', '-c', `${line} && exec "$@"`, 'sh'];
}

export function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, delayMs);
  });
}

/** Asks again until `isTrue`, at most so long; answers whether it became true. */
export async function becomesTrue(
  isTrue: () => boolean | Promise<boolean>,
  { waitMsMax = commandMsMax, pauseMs = 20 } = {},
): Promise<boolean> {
  const untilMs = performance.now() + waitMsMax;
  for (;;) {
    if (await isTrue()) {
      return true;
    }
    if (performance.now() >= untilMs) {
      return false;
    }
    await pause(pauseMs);
  }
}
