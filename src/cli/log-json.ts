// The output of attempts as JSON: one document of all of them, or one object a line of what is followed. Written piece
// by piece, so that a long output is never in memory as a whole. What is no UTF-8 becomes replacement characters; the
// exact bytes are what `--raw` gives.
import type { LogEntry } from './log-entry.ts';
import { type LogPrinter, lossText, type Missing } from './log-printer.ts';
import { jsonLine, type Output } from './output.ts';
import { createDecoder, type Decoder } from './text-stream.ts';

/** `{"runId","attempts":[{…,"text","missing","nextOffset"}]}`; `close` ends it. */
export function createDocumentPrinter(output: Output, runId: string): LogPrinter {
  const decoder = createDecoder();
  let missing: Missing[] = [];
  let count = 0;
  let hasText = false;
  output.write(`{"runId":${jsonLine(runId)},"attempts":[`);
  const writeText = (text: string) => output.write(jsonLine(text).slice(1, -1));
  return {
    begin(entry, { source, remark, offset }) {
      const { number, status, outputBytes, outputTruncated } = entry.attempt;
      const head = { ...nameOf(entry), number, status, outputBytes, outputTruncated, source, reason: remark, offset };
      hasText = source !== null;
      output.write(`${count === 0 ? '' : ','}${jsonLine(head).slice(0, -1)},"text":${hasText ? '"' : 'null'}`);
      count += 1;
    },
    async bytes(_entry, { bytes }) {
      writeText(decoder.push(bytes).text);
      await output.flush();
    },
    missing(_entry, lost) {
      writeText(decoder.end());
      missing.push(lost);
    },
    end(_entry, nextOffset) {
      const rest = hasText ? `${jsonLine(decoder.end()).slice(1, -1)}"` : '';
      output.write(`${rest},"missing":${jsonLine(missing.map(describeMissing))},"nextOffset":${nextOffset}}`);
      missing = [];
    },
    close: () => output.write(']}\n'),
  };
}

/** Objects of the types `begin`, `output`, `missing` and `end`, each with the attempt that it is about. */
export function createLinesPrinter(output: Output): LogPrinter {
  const decoders = new Map<string, Decoder>();
  const decoderOf = ({ attempt: { id } }: LogEntry) => {
    const decoder = decoders.get(id) ?? createDecoder();
    decoders.set(id, decoder);
    return decoder;
  };
  const printRest = (entry: LogEntry, nextOffset: number) => {
    const text = decoderOf(entry).end();
    if (text !== '') {
      output.printJson({ type: 'output', ...nameOf(entry), text, nextOffset });
    }
  };
  return {
    begin(entry, { source, remark, offset }) {
      const { number, status } = entry.attempt;
      output.printJson({ type: 'begin', ...nameOf(entry), number, status, source, reason: remark, offset });
    },
    async bytes(entry, { offset, bytes }) {
      const { text, bytesWaiting } = decoderOf(entry).push(bytes);
      if (text !== '') {
        const nextOffset = offset + bytes.length - bytesWaiting;
        output.printJson({ type: 'output', ...nameOf(entry), text, nextOffset });
        await output.flush();
      }
    },
    missing(entry, missing) {
      printRest(entry, missing.offset);
      output.printJson({ type: 'missing', ...nameOf(entry), ...describeMissing(missing) });
    },
    end(entry, nextOffset) {
      printRest(entry, nextOffset);
      decoders.delete(entry.attempt.id);
      const { status, outputBytes, outputTruncated } = entry.attempt;
      output.printJson({ type: 'end', ...nameOf(entry), status, outputBytes, outputTruncated, nextOffset });
    },
    close: () => {},
  };
}

function nameOf({ stepKey, ordinal, attempt }: LogEntry) {
  return { stepKey, attempt: ordinal, attemptId: attempt.id };
}

function describeMissing(missing: Missing) {
  return { offset: missing.offset, bytes: missing.bytes, reason: lossText(missing) };
}
