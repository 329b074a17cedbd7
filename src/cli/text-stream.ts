// Output that comes in pieces of bytes, as text that is safe to print: no character is ever split between two pieces,
// nor a line end of two bytes. Pure.
import { trimEnd } from '../executor/character-bounds.ts';
import { neutralizeLines } from './plain-text.ts';

export type TextStream = {
  /** Neutralized. What may be the beginning of something longer waits for the next piece. */
  push(bytes: Buffer): string;
  /** What waited, now that nothing follows; the stream begins anew. */
  end(): string;
};

export function createTextStream(): TextStream {
  const decoder = createDecoder();
  let held = '';
  const neutralizeHeld = (text: string) => {
    held = text.endsWith('\r') ? '\r' : '';
    return neutralizeLines(held === '' ? text : text.slice(0, -1));
  };
  return {
    push: (bytes) => neutralizeHeld(held + decoder.push(bytes).text),
    end() {
      const text = neutralizeLines(held + decoder.end());
      held = '';
      return text;
    },
  };
}

export type Decoder = {
  /** The characters that are whole, and how many bytes wait for the rest of theirs. */
  push(bytes: Buffer): { readonly text: string; readonly bytesWaiting: number };
  end(): string;
};

/** What is no UTF-8 becomes replacement characters. */
export function createDecoder(): Decoder {
  let waiting = Buffer.alloc(0);
  return {
    push(bytes) {
      const all = waiting.length === 0 ? bytes : Buffer.concat([waiting, bytes]);
      const whole = trimEnd(all);
      waiting = Buffer.from(all.subarray(whole.length));
      return { text: decode(whole), bytesWaiting: waiting.length };
    },
    end() {
      const text = decode(waiting);
      waiting = Buffer.alloc(0);
      return text;
    },
  };
}

function decode(bytes: Buffer): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}
