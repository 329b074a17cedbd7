// Where the output of an attempt is: kept, or still in its directory; and where there is none, why. Nothing is guessed:
// what policy was in force when an attempt ended is not recorded, so the present one is named as the present one.
import { existsSync } from 'node:fs';
import { formatSize } from '../core/duration.ts';
import { startWithdrawn } from '../core/retry.ts';
import { isTerminalAttempt } from '../core/states.ts';
import { attemptDirectory } from '../executor/attempt-files.ts';
import { type OutputSource, openOutput } from '../executor/output.ts';
import type { AttemptInspection } from '../runtime/inspection.ts';
import { openKept } from '../runtime/kept-file.ts';
import type { RuntimeSettings } from '../runtime/settings.ts';
import { artifactsDirectory } from './attempt-outputs.ts';
import { formatCount } from './times.ts';

export type OutputPlaces = {
  readonly data: string;
  readonly runDirectory: string;
  readonly settings: Pick<RuntimeSettings, 'keepOutput' | 'outputQuotaBytes'>;
  /** Whether attempts may have run on another machine. */
  readonly isShared: boolean;
};

export type FoundOutput =
  | {
      readonly kind: 'kept' | 'live';
      readonly source: OutputSource;
      /** What there is to know about it. */
      readonly remark: string | null;
    }
  | { readonly kind: 'none'; readonly why: string };

/** Why output was lost, as the record of its attempt says it: of a disk that failed, of a system without a pump. */
const toldLoss = /its output (?:could not be|was not) kept: [^;]*/;

/** What is found must be closed. */
export function findOutput(places: OutputPlaces, runId: string, attempt: AttemptInspection): FoundOutput {
  const isEnded = isTerminalAttempt(attempt.status);
  const live = () => openLive(places, attempt);
  // An earlier process may have kept it before it died; until its end is recorded, its directory knows more.
  const reading = isEnded ? null : live();
  if (reading !== null) {
    return reading;
  }
  const kept = openKept(artifactsDirectory(places.data), { runId, attemptId: attempt.id });
  switch (kept.kind) {
    case 'found':
      return { kind: 'kept', source: kept.source, remark: partRemark(attempt) };
    case 'damaged':
      return { kind: 'none', why: `what was kept of its output is damaged: ${kept.file}` };
    case 'absent':
      return (isEnded ? live() : null) ?? { kind: 'none', why: whyNone(places, attempt) };
  }
}

function openLive({ runDirectory }: OutputPlaces, attempt: AttemptInspection): FoundOutput | null {
  const directory = attemptDirectory(runDirectory, attempt.id);
  if (!existsSync(directory)) {
    return null;
  }
  const source = openOutput(directory, attempt.id);
  const remark = source.look().totalBytes === 0 ? 'nothing so far' : null;
  return { kind: 'live', source, remark };
}

function partRemark({ outputBytes, outputTruncated }: AttemptInspection): string | null {
  return outputTruncated === true ? `only a part of its ${formatCount(outputBytes ?? 0, 'byte')} was kept` : null;
}

function whyNone({ settings, isShared }: OutputPlaces, attempt: AttemptInspection): string {
  const { status, outputBytes, outputTruncated, errorSummary, exitCode, signal, errorCode, executorType } = attempt;
  if (executorType === 'handler') {
    return 'a handler has no output';
  }
  if (!isTerminalAttempt(status)) {
    const elsewhere = isShared ? ': it may run on another machine' : '';
    return status === 'claimed' ? 'it has not begun' : `its directory in the run directory is not there${elsewhere}`;
  }
  if (outputBytes === 0 && outputTruncated === false) {
    return 'it wrote nothing';
  }
  const told = toldLoss.exec(errorSummary ?? '');
  if (told !== null) {
    return told[0];
  }
  if (outputBytes === null) {
    const isUnstarted = errorCode === startWithdrawn || (status === 'failed' && exitCode === null && signal === null);
    return isUnstarted ? 'no command ran' : 'no output of it is known';
  }
  const what = `its output (${formatCount(outputBytes, 'byte')})`;
  const { keepOutput, outputQuotaBytes } = settings;
  if (keepOutput === 'never' || (keepOutput === 'failures' && status === 'succeeded')) {
    return isShared
      ? `${what} is on another machine, or was not kept: keepOutput is ${keepOutput} here`
      : `${what} was not kept: keepOutput is ${keepOutput}`;
  }
  const quota = `outputQuota (${formatSize(outputQuotaBytes)})`;
  const elsewhere = isShared ? 'on another machine, ' : '';
  const gone = `not kept when it ended, or gone since: the oldest goes when ${quota} is used up`;
  return `${what} is not there: ${elsewhere}${gone}`;
}
