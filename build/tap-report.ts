// Reads the TAP stream of tap's runner and counts tests: blocks without blocks in them, and assertions that stand
// outside any such block. A file that ran nothing, or failed without a failed test, counts as one failure.
import { Parser } from 'tap-parser';

export type TapCounts = { passed: number; failed: number; skipped: number };

export type TapFile = TapCounts & {
  readonly name: string;
  readonly timeMs: number;
  /** What failed, in TAP's own words. */
  readonly failures: readonly string[];
  /** What the file printed beside TAP. */
  readonly output: string;
};

type Point = {
  readonly ok: boolean;
  readonly fullname: string;
  readonly skip: boolean | string;
  readonly todo: boolean | string;
  readonly time: number | null;
  readonly diag: unknown;
};

type Block = TapCounts & {
  readonly failures: string[];
  readonly output: string[];
  /** The block that ended just now, whose summary is the next point; null for a plain assertion. */
  ended: Block | null;
  blocks: number;
};

/**
 * A parser to write a TAP stream to. `onFile` gets each file as it ends. `counts` holds the totals when the stream has
 * ended; `isComplete` is then false when the stream broke off.
 */
export function createTapReport(onFile: (file: TapFile) => void) {
  const counts: TapCounts = { passed: 0, failed: 0, skipped: 0 };
  const top = openBlock();
  const report = { parser: new Parser(), counts, isComplete: false };
  report.parser.on('child', (child: Parser) => follow(child, top));
  report.parser.on('assert', (point: Point) => {
    const file = settleFile(top.ended, point);
    top.ended = null;
    add(counts, file);
    onFile(file);
  });
  report.parser.on('complete', ({ count: points, plan }: { count: number; plan: { end: number | null } }) => {
    report.isComplete = points > 0 && points === plan.end;
  });
  return report;
}

function openBlock(): Block {
  return { passed: 0, failed: 0, skipped: 0, failures: [], output: [], ended: null, blocks: 0 };
}

function follow(parser: Parser, parent: Block): void {
  const block = openBlock();
  parent.blocks += 1;
  parser.on('child', (child: Parser) => follow(child, block));
  parser.on('extra', (text: string) => block.output.push(text));
  parser.on('assert', (point: Point) => {
    settle(block, block.ended, point);
    block.ended = null;
  });
  parser.on('complete', () => {
    parent.ended = block;
  });
}

/** Adds one point of `parent`; `child` is the block that it sums up. */
function settle(parent: Block, child: Block | null, point: Point): void {
  const isPending = point.skip !== false || point.todo !== false;
  if (child === null) {
    count(parent, point, isPending);
    return;
  }
  parent.failures.push(...child.failures);
  parent.output.push(...child.output);
  const isLeaf = child.blocks === 0;
  if (isLeaf) {
    // A block of assertions is one test, however many they are.
    const isSkipped = isPending || (point.ok && child.passed === 0 && child.skipped > 0);
    const failures = parent.failures.length;
    count(parent, point, isSkipped);
    if (child.failures.length > 0) {
      // The assertions inside have said what failed; the summary of their block adds nothing.
      parent.failures.length = failures;
    }
    return;
  }
  add(parent, child);
  if (!point.ok && !isPending && child.failed === 0) {
    count(parent, point, false);
  }
}

function count(block: Block, point: Point, isPending: boolean): void {
  if (isPending) {
    block.skipped += 1;
  } else if (point.ok) {
    block.passed += 1;
  } else {
    block.failed += 1;
    block.failures.push(describe(point));
  }
}

function describe(point: Point): string {
  return `not ok: ${point.fullname}\n${indent(printDetails(point.diag))}`.trimEnd();
}

// What tap tells about the process of a file, of no use to whoever reads a failure.
const processDetails = new Set(['stdio', 'cwd', 'externalID', 'command', 'args', 'jobId']);

function printDetails(details: unknown): string {
  if (typeof details !== 'object' || details === null) {
    return '';
  }
  const told = Object.entries(details).filter(([key]) => !processDetails.has(key));
  const entries = told.map(([key, value]) => {
    const text = typeof value === 'string' ? value.trimEnd() : JSON.stringify(value);
    return text.includes('\n') ? `${key}:\n${indent(text)}` : `${key}: ${text}`;
  });
  return entries.join('\n');
}

function indent(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '  ');
}

function settleFile(block: Block | null, point: Point): TapFile {
  const { passed, failed, skipped, failures, output } = block ?? openBlock();
  const file = { passed, failed, skipped, failures: [...failures] };
  const hasRun = passed + failed + skipped > 0;
  if ((!point.ok && failed === 0) || !hasRun) {
    file.failed += 1;
    file.failures.push(describe(hasRun ? point : { ...point, fullname: `${point.fullname} ran no test` }));
  }
  return { ...file, name: point.fullname, timeMs: point.time ?? 0, output: output.join('') };
}

function add(counts: TapCounts, more: TapCounts): void {
  counts.passed += more.passed;
  counts.failed += more.failed;
  counts.skipped += more.skipped;
}
