// Where a command's words go: results to stdout, everything else to stderr. Owns the two streams and nothing of what is
// said. A reader that goes away ends the command quietly, unless it has more to do than to print.
import type { Writable } from 'node:stream';
import { errorTable } from '../core/errors.ts';
import { type Failure, failureDocument, failureLines } from './failure.ts';
import { asciiOnly, neutralizeJson } from './plain-text.ts';
import { createPaint, describeTerminal, type Paint, type Terminal } from './terminal.ts';

export type Output = {
  readonly isJson: boolean;
  /** Of stdout; its size may change. */
  terminal(): Terminal;
  readonly paint: Paint;
  /** Lines of text to stdout. They must be neutralized. */
  print(...lines: readonly string[]): void;
  /** Text to stdout without a line end of its own, as far as the locale can show it. It must be neutralized. */
  printText(text: string): void;
  /** One JSON value on one line to stdout. */
  printJson(value: unknown): void;
  /** To stdout exactly as it is. */
  write(bytes: string | Uint8Array): void;
  /** One line to stderr that is no failure. It must be neutralized. */
  note(line: string): void;
  /** Tells a failure on stderr; returns its exit code. */
  fail(failure: Failure): number;
  /** Resolves when everything has been taken by whoever reads: ending before would cut it off. */
  flush(): Promise<void>;
  /** Called instead of ending the process when nobody reads stdout any more, or nothing can be written to it. */
  onUnread(listener: () => void): void;
  /** Whether something that was said could not be written, other than because nobody reads on. */
  isLost(): boolean;
};

export type OutputStream = Writable & { readonly isTTY?: boolean; readonly columns?: number; readonly rows?: number };

export type OutputOptions = {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly environment: (name: string) => string | null;
  readonly isJson: boolean;
  /** Ends the process. */
  readonly exit: (code: number) => void;
};

/** One value as JSON on one line, without anything that a terminal would obey. */
export function jsonLine(value: unknown): string {
  return neutralizeJson(JSON.stringify(value));
}

export function createOutput({ stdout, stderr, environment, isJson, exit }: OutputOptions): Output {
  let isUnread = false;
  let isLost = false;
  let unread = () => exit(isLost ? errorTable.unavailable.exitCode : 0);
  const onError = (error: NodeJS.ErrnoException) => {
    if (isUnread) {
      return;
    }
    isUnread = true;
    // EIO: the terminal is gone.
    isLost = error.code !== 'EPIPE' && error.code !== 'EIO';
    if (isLost) {
      note(`qinglong-edge: unavailable: cannot write the answer: ${error.code}`);
    }
    unread();
  };
  stdout.on('error', onError);
  // Without stderr there is nobody left to be told.
  stderr.on('error', () => {});
  const terminal = () =>
    describeTerminal({
      isTty: stdout.isTTY === true,
      columns: stdout.columns ?? null,
      rows: stdout.rows ?? null,
      environment,
    });
  const write = (bytes: string | Uint8Array) => {
    if (!isUnread) {
      stdout.write(bytes);
    }
  };
  // A locale does not change while a command runs. JSON and exact bytes are for programs, which have none.
  const shown = terminal().isAsciiOnly ? asciiOnly : (text: string) => text;
  const printText = (text: string) => write(shown(text));
  const note = (line: string) => {
    stderr.write(`${shown(line)}\n`);
  };
  return {
    isJson,
    terminal,
    paint: createPaint(terminal()),
    print: (...lines) => printText(lines.map((line) => `${line}\n`).join('')),
    printText,
    printJson: (value) => write(`${jsonLine(value)}\n`),
    write,
    note,
    fail(failure) {
      if (isJson) {
        stderr.write(`${jsonLine(failureDocument(failure))}\n`);
      } else {
        failureLines(failure).forEach(note);
      }
      return failure.exitCode;
    },
    async flush() {
      for (const stream of [stdout, stderr]) {
        // A stream that failed answers with its error, which was told before.
        await new Promise((resolve) => stream.write('', resolve));
      }
    },
    onUnread(listener) {
      unread = listener;
    },
    isLost: () => isLost,
  };
}
