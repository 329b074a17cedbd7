// Whether an answer of the product under a fault is one that an operator can live with. The table of codes is written
// down again here, as the product's documentation has it: what is judged must not be what judges.
import type { Answer } from './launch.ts';

const exitCodeOf: Readonly<Record<string, number>> = {
  invalid: 2,
  'not-found': 3,
  conflict: 3,
  'not-allowed': 3,
  busy: 4,
  full: 4,
  unavailable: 4,
  'unknown-outcome': 4,
  damaged: 5,
  internal: 70,
};

/** Words that only a program says that did not expect what it met. */
const crashWords = new RegExp(
  [
    'broken invariant|this is a defect|Fatal error|Segmentation|Assertion .+ failed|Node\\.js v\\d',
    '\\bat .+\\.[cm]?[jt]s:\\d+:\\d+\\)?$|\\b(Type|Reference|Range|Assertion)Error\\b',
  ].join('|'),
  'm',
);

/** As a command says it, and as the log of a daemon does: `2026-11-30 20:49:03 unavailable: …`. */
const errorLine = /^(?:qinglong-edge:|\d{4}-\d\d-\d\d [\d:]+) ([a-z-]+): (.+)$/;

export type Expected = {
  /** Codes that tell the operator the truth about this fault. */
  readonly codes: readonly string[];
  /** Whether it may be that nothing went wrong. */
  readonly mayHold: boolean;
  /** Whether the end of the run may be told by the exit code: a run that failed (1), timed out, was cancelled. */
  readonly mayTellRun?: boolean;
  /** Whether Node.js itself may abort or hang, as it does short of threads: then only what it left is judged. */
  readonly mayNodeGiveUp?: boolean;
  /** Whether it is a report (`verify`, `doctor`), which tells by exit code 5 or 4 that it found something. */
  readonly isReport?: boolean;
};

/** Everything works: the answer must be 0. */
export const works: Expected = { codes: [], mayHold: true };

type Told = { readonly code: string; readonly message: string };

/** The last error that was told, in words or as JSON; null where there is none. */
export function readError({ err }: Pick<Answer, 'err'>): Told | null {
  for (const line of err.split('\n').reverse()) {
    const [, code = '', message = ''] = errorLine.exec(line) ?? [];
    const told = line.startsWith('{"error":') ? readErrorDocument(line) : { code, message };
    if (told !== null && told.code in exitCodeOf) {
      return told;
    }
  }
  return null;
}

function readErrorDocument(line: string): Told | null {
  try {
    const { error } = JSON.parse(line) as { readonly error: Readonly<Record<'code' | 'message' | 'hint', string>> };
    return { code: error.code, message: `${error.message}; ${error.hint}` };
  } catch {
    return null;
  }
}

/** What is wrong with how a process ended, and with what it said; empty where nothing is. */
export function findAnswerTrouble(answer: Answer, expected: Expected): readonly string[] {
  const { code, signal, err, out, isLate } = answer;
  if (expected.mayNodeGiveUp === true && (isLate || signal === 'SIGABRT')) {
    return [];
  }
  if (isLate) {
    return [`it did not end by itself within its limit${quote(err)}`];
  }
  if (signal !== null) {
    return [`it was ended by ${signal}${quote(err)}`];
  }
  const crash = crashWords.exec(err + out);
  if (crash !== null) {
    return [`it crashed with exit code ${code}: ${crash[0]}${quote(err)}`];
  }
  if (code === 0) {
    return expected.mayHold ? [] : [`it answered 0 where it could not have done what was asked${quote(out + err)}`];
  }
  if (expected.mayTellRun === true && [1, 124, 130].includes(code ?? -1)) {
    return [];
  }
  if (expected.isReport === true && (code === 4 || code === 5) && readError(answer) === null) {
    return (out + err).trim() === '' ? ['it found something and does not say what'] : [];
  }
  return findRefusalTrouble(answer, expected);
}

function findRefusalTrouble({ code, err }: Answer, expected: Expected): readonly string[] {
  const told = readError({ err });
  if (told === null) {
    return [`exit code ${code} without a code of the closed table${quote(err)}`];
  }
  const wanted = exitCodeOf[told.code];
  return [
    ...(wanted === code ? [] : [`exit code ${code}, but ${told.code} has ${wanted}`]),
    ...(expected.codes.includes(told.code) ? [] : [describeMisleading(told.code, expected)]),
    // What to do stands behind the last semicolon.
    ...(/; \S{2,}/.test(told.message) ? [] : ['it does not say what to do']),
  ].map((what) => `${what}${quote(err)}`);
}

function describeMisleading(code: string, { codes }: Expected): string {
  return codes.length === 0 ? `it was refused as ${code}` : `the code ${code} misleads, ${codes.join(' or ')} is true`;
}

/** The end of what was said, for a report. */
export function quote(text: string): string {
  const words = text.trim().split('\n').slice(-3).join(' | ');
  return words === '' ? '' : `: “${words.slice(-400)}”`;
}
