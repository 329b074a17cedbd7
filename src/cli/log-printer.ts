// How the output of attempts is printed: as text for people or as exact bytes (as JSON: log-json.ts). A printer is told
// in order what an attempt wrote and what of it is missing; it keeps no more than one unfinished line of each.
import { entryText, type LogEntry } from './log-entry.ts';
import type { Output } from './output.ts';
import { createTextStream, type TextStream } from './text-stream.ts';
import { formatCount } from './times.ts';

/** Why bytes are missing: the bound of an output, a full run directory, or nobody read them in time. */
export type Loss = 'left-out' | 'lost' | 'gone';
export type Missing = { readonly offset: number; readonly bytes: number; readonly why: Loss };

export type LogHead = {
  readonly source: 'kept' | 'live' | null;
  /** What there is to know beside the output, or instead of it. */
  readonly remark: string | null;
  /** Where in what the attempt wrote the output begins that follows. */
  readonly offset: number;
};

export type LogPrinter = {
  begin(entry: LogEntry, head: LogHead): void;
  /** Resolves when whoever reads has taken them. */
  bytes(entry: LogEntry, piece: { readonly offset: number; readonly bytes: Buffer }): Promise<void>;
  missing(entry: LogEntry, missing: Missing): void;
  /** Nothing of it comes any more; `offset` is where it ended. */
  end(entry: LogEntry, offset: number): void;
  /** Nothing at all comes any more: leaves the line that was begun. */
  close(): void;
};

const lossWords: Readonly<Record<Loss, string>> = {
  'left-out': 'left out',
  lost: 'lost: no space in the run directory',
  gone: 'gone before they could be read',
};

export function lossText({ bytes, why }: Missing): string {
  return `${formatCount(bytes, 'byte')} ${lossWords[why]}`;
}

/** A line without an end waits no longer than this for it, while others write too. */
const lineCharactersMax = 8192;

type TextOptions = { readonly hasHeadings: boolean; readonly isShared: () => boolean };

/**
 * For people: neutralized. Before the output of each attempt stands its name; without `hasHeadings` not before the
 * first. While `isShared`, whole lines of one attempt stand together.
 */
export function createTextPrinter(output: Output, options: TextOptions): LogPrinter {
  return new TextPrinter(output, options);
}

class TextPrinter implements LogPrinter {
  readonly #output: Output;
  readonly #options: TextOptions;
  readonly #waiting = new Map<string, { readonly stream: TextStream; line: string }>();
  /** The attempt whose output stands last. */
  #current: string | null = null;
  #isLineOpen = false;

  constructor(output: Output, options: TextOptions) {
    this.#output = output;
    this.#options = options;
  }

  begin(entry: LogEntry, { remark }: LogHead): void {
    this.#enter(entry, remark);
  }

  async bytes(entry: LogEntry, piece: { readonly bytes: Buffer }): Promise<void> {
    const waiting = this.#waitingOf(entry);
    const text = waiting.line + waiting.stream.push(piece.bytes);
    const isWhole = !this.#options.isShared() || text.length > lineCharactersMax;
    const end = isWhole ? text.length : text.lastIndexOf('\n') + 1;
    waiting.line = text.slice(end);
    if (end > 0) {
      this.#enter(entry, null);
      this.#print(text.slice(0, end));
      await this.#output.flush();
    }
  }

  missing(entry: LogEntry, missing: Missing): void {
    this.#flushLine(entry);
    this.#enter(entry, null);
    this.#printLine(this.#output.paint(`[${lossText(missing)}]`, 'dim'));
  }

  end(entry: LogEntry): void {
    this.#flushLine(entry);
    this.#waiting.delete(entry.attempt.id);
    if (this.#current === entry.attempt.id) {
      this.close();
    }
  }

  close(): void {
    this.#print(this.#isLineOpen ? '\n' : '');
  }

  /** Names the attempt, unless it is the one that stands last. */
  #enter(entry: LogEntry, remark: string | null): void {
    const name = entryText(entry);
    const isNamed = this.#options.hasHeadings || this.#current !== null;
    if (this.#current !== entry.attempt.id && isNamed) {
      this.#printLine(this.#output.paint(`== ${name}${remark === null ? '' : `: ${remark}`}`, 'bold'));
    } else if (remark !== null) {
      this.#output.note(`${name}: ${remark}`);
    }
    this.#current = entry.attempt.id;
  }

  #waitingOf({ attempt: { id } }: LogEntry) {
    const waiting = this.#waiting.get(id) ?? { stream: createTextStream(), line: '' };
    this.#waiting.set(id, waiting);
    return waiting;
  }

  #flushLine(entry: LogEntry): void {
    const waiting = this.#waitingOf(entry);
    const text = waiting.line + waiting.stream.end();
    waiting.line = '';
    if (text !== '') {
      this.#enter(entry, null);
      this.#print(text);
    }
  }

  #printLine(line: string): void {
    this.#print(`${this.#isLineOpen ? '\n' : ''}${line}\n`);
  }

  #print(text: string): void {
    if (text !== '') {
      this.#output.printText(text);
      this.#isLineOpen = !text.endsWith('\n');
    }
  }
}

/** Byte for byte; what is to be said stands on stderr. */
export function createRawPrinter(output: Output): LogPrinter {
  return {
    begin(entry, { remark }) {
      if (remark !== null) {
        output.note(`${entryText(entry)}: ${remark}`);
      }
    },
    async bytes(_entry, { bytes }) {
      output.write(bytes);
      await output.flush();
    },
    missing(entry, missing) {
      output.note(`${entryText(entry)}: ${lossText(missing)}, at byte ${missing.offset}`);
    },
    end: () => {},
    close: () => {},
  };
}
