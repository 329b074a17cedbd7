// What is known of an attempt that is over, as data. Reads its directory; signals and waits for nobody.
import { constants } from 'node:os';
import { isOutputThrownAway, type Receipt, readNotes, readTaken } from './attempt-files.ts';
import { readUserName } from './command-file.ts';
import { measureOutput } from './output.ts';
import type { SpawnFailure } from './preflight.ts';

/** How an attempt was ended from outside, as far as its executor knows. */
export type Ending = {
  /** KILL was needed. */
  readonly isForced: boolean;
  /** Processes of its session that outlived the command and were ended. */
  readonly leftoversCount: number;
  /** Those that even KILL did not end. */
  readonly survivorsCount: number;
};

export type AttemptEnd =
  | {
      readonly kind: 'exited';
      /** As a shell counts: 128 + n for signal n. */
      readonly exitCode: number;
      /** Its name where the shell said that it was one. */
      readonly signal: string | null;
      /** 130 and 141: a shell says nothing of SIGINT and SIGPIPE. */
      readonly isPerhapsSignal: boolean;
      /** Wall times, from the files; `durationMs` is of the monotonic clock, in steps of 10 ms. */
      readonly startedAtMs: number;
      readonly finishedAtMs: number;
      readonly durationMs: number;
      /** By the monotonic clock, rounded down to 10 ms: a moment after the command's end. */
      readonly endUptimeMs: number;
      readonly outputBytes: number;
      readonly outputTruncated: boolean;
      readonly isForced: boolean;
      readonly leftoversCount: number;
      /** What an operator should know besides, in one line. */
      readonly note: string | null;
    }
  /** No command ran. */
  | SpawnFailure
  /** Its start was taken back: no command ran, and none will. */
  | { readonly kind: 'withdrawn' }
  /** Certainly not running, and nobody knows how it ended. */
  | { readonly kind: 'lost'; readonly isForced: boolean; readonly errorSummary: string };

export type EndInput = {
  readonly directory: string;
  readonly attemptId: string;
  readonly startUptimeMs: number;
  readonly outputBytesMax: number;
  readonly ending: Ending;
};

const signalNames = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));
// Two names for one signal: the usual one.
signalNames.set(constants.signals.SIGABRT, 'SIGABRT');
signalNames.set(constants.signals.SIGIO, 'SIGIO');

export const nothingDone: Ending = { isForced: false, leftoversCount: 0, survivorsCount: 0 };

/** The end that a receipt proves. */
export function describeExit(input: EndInput, receipt: Receipt): AttemptEnd {
  const { directory, attemptId, ending } = input;
  const { outputBytes, outputTruncated, isExact } = measureOutput(directory, attemptId, input.outputBytesMax);
  const { signal, isPerhapsSignal } = describeStatus(receipt.status, directory);
  const durationMs = Math.max(0, receipt.endUptimeMs - input.startUptimeMs);
  return {
    kind: 'exited',
    exitCode: receipt.status,
    signal,
    isPerhapsSignal,
    startedAtMs: readTaken(directory, attemptId)?.atMs ?? receipt.endedAtMs - durationMs,
    finishedAtMs: receipt.endedAtMs,
    durationMs,
    endUptimeMs: receipt.endUptimeMs,
    outputBytes,
    outputTruncated,
    isForced: ending.isForced,
    leftoversCount: ending.leftoversCount,
    note: describeNote(input, { status: receipt.status, isPerhapsSignal, isExact }),
  };
}

function describeStatus(status: number, directory: string) {
  const number = status - 128;
  if (number <= 0) {
    return { signal: null, isPerhapsSignal: false };
  }
  if (readNotes(directory).after !== '') {
    return { signal: signalNames.get(number) ?? `SIG${number}`, isPerhapsSignal: false };
  }
  return { signal: null, isPerhapsSignal: number === constants.signals.SIGINT || number === constants.signals.SIGPIPE };
}

type Exit = { readonly status: number; readonly isPerhapsSignal: boolean; readonly isExact: boolean };

function describeNote(input: EndInput, { status, isPerhapsSignal, isExact }: Exit): string | null {
  const { isForced, leftoversCount, survivorsCount } = input.ending;
  const notes = [
    isPerhapsSignal ? `perhaps ended by ${signalNames.get(status - 128)}` : null,
    status === 126 || status === 127 ? hintAtUser(input.directory) : null,
    isForced ? 'KILL was needed' : null,
    leftoversCount > 0 ? `${leftoversCount} of its processes outlived it and were ended` : null,
    survivorsCount > 0 ? `${survivorsCount} of its processes could not be ended` : null,
    isExact ? null : describeOutputLoss(input),
  ].filter((note) => note !== null);
  return notes.length === 0 ? null : notes.join('; ');
}

/** Whether a program can be executed was looked at as the runtime's own user. */
function hintAtUser(directory: string): string | null {
  const name = readUserName(directory);
  return name === null ? null : `perhaps user ${name} may not read or execute it`;
}

function describeOutputLoss({ directory, attemptId }: EndInput): string {
  return isOutputThrownAway(directory, attemptId)
    ? 'its output was not kept: this system lacks mkfifo, dd or wc'
    : 'its output may be incomplete';
}

/** The end of an attempt that left no receipt. */
export function describeLoss(reason: string, { isForced }: Ending): AttemptEnd {
  return { kind: 'lost', isForced, errorSummary: isForced ? `${reason}; KILL was needed` : reason };
}
