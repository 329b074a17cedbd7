// Shows the output of one attempt as it is now, through a printer.
import type { FoundOutput } from './found-output.ts';
import type { LogEntry } from './log-entry.ts';
import { findPart, type LogPart, readPieces } from './log-part.ts';
import type { LogPrinter } from './log-printer.ts';
import { neutralize } from './plain-text.ts';
import { formatBytes } from './times.ts';

type Showing = {
  readonly entry: LogEntry;
  readonly found: FoundOutput;
  readonly part: LogPart;
  readonly isRaw: boolean;
};

/** Prints one attempt. Returns what to say about the part that was shown, where there is more. */
export async function showOutput(printer: LogPrinter, { entry, found, part, isRaw }: Showing): Promise<string | null> {
  if (found.kind === 'none') {
    printer.begin(entry, { source: null, remark: neutralize(found.why), offset: 0 });
    printer.end(entry, 0);
    return null;
  }
  const { source } = found;
  try {
    const range = findPart(source, part, { isRaw });
    const { ranges } = source.look();
    const isWhole = part.kind !== 'all' && ranges.some(({ start, end }) => start <= range.start && range.end <= end);
    // What is missing elsewhere does not concern who asked for a part that is there.
    const remark = found.kind === 'kept' && isWhole && range.start < range.end ? null : found.remark;
    printer.begin(entry, { source: found.kind, remark, offset: range.start });
    const end = await readPieces(source, range, {
      bytes: (offset, bytes) => printer.bytes(entry, { offset, bytes }),
      missing: (offset, bytes) => printer.missing(entry, { offset, bytes, why: 'left-out' }),
    });
    const { keptEnd, thrownBytes, totalBytes } = source.look();
    if (end < range.end) {
      printer.missing(entry, { offset: end, bytes: range.end - end, why: 'gone' });
    } else if (end === keptEnd && thrownBytes > 0) {
      printer.missing(entry, { offset: keptEnd, bytes: thrownBytes, why: 'lost' });
    }
    printer.end(entry, range.end);
    return describeRest(part, { ...range, totalBytes });
  } finally {
    source.close();
  }
}

/** Of a page where it lies, and how to go on; of the end that a terminal is shown, that there is more. */
function describeRest(
  part: LogPart,
  { start, end, totalBytes }: { readonly start: number; readonly end: number; readonly totalBytes: number },
): string | null {
  if (part.kind === 'from' || part.kind === 'last') {
    const next = end < totalBytes ? `; go on with --offset ${end}` : '';
    return `bytes ${start} to ${end} of ${totalBytes}${next}`;
  }
  const isCut = part.kind === 'lines' && Number.isFinite(part.bytesMax) && start > 0;
  return isCut ? `${formatBytes(start)} before this; --all shows everything` : null;
}
