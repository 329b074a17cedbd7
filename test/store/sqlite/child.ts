// Runs a small program in a process of its own, for what must really die, hold a lock or have other rights.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';

const sqliteUrl = new URL('../../../src/store/sqlite/', import.meta.url).href;
const toyUrl = new URL('./toy-store.ts', import.meta.url).href;

export type Child = {
  readonly process: ChildProcess;
  /** The next line of its output; fails where it ended before. */
  line(): Promise<string>;
  /** Its end: exit code or signal, and what it wrote to stderr. */
  ended(): Promise<{ readonly code: number | null; readonly signal: string | null; readonly errors: string }>;
};

export type ChildOptions = {
  /** Before the program: a command that sets limits, and then runs what follows it. */
  readonly prefix?: readonly string[];
  readonly uid?: number;
};

/**
 * Starts TypeScript in a child. `sqlite('open.ts')` in the program imports from the store, `toy()` the toy store. It is
 * killed at the end of the test, if it still lives.
 */
export function startChild(t: Test, program: string, { prefix = [], uid }: ChildOptions = {}): Child {
  const head = `const sqlite = (file) => import('${sqliteUrl}' + file); const toy = () => import('${toyUrl}');`;
  const node = [process.execPath, '--input-type=module-typescript', '--eval', `${head}\n${program}`];
  const [command = '', ...args] = [...prefix, ...node];
  const child = spawn(command, args, {
    cwd: path.parse(process.cwd()).root,
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(uid === undefined ? {} : { uid, gid: uid }),
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const closed = once(child, 'close');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  return {
    process: child,
    line: async () => {
      const { value, done } = await lines.next();
      if (done === true) {
        t.fail(`the child ended: ${errors}`);
      }
      return value ?? '';
    },
    ended: async () => {
      const [code, signal] = await closed;
      return { code, signal, errors };
    },
  };
}
