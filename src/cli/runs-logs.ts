// `runs logs`: what the commands of a run wrote: kept, or still in the directory of a running attempt; and where
// there is nothing, why. Output is data: shown neutralized, and byte for byte only where that is asked for.
import { attemptDirectory } from '../executor/attempt-files.ts';
import type { AttemptInspection, StepInspection } from '../runtime/inspection.ts';
import { readKept, readLive } from './attempt-outputs.ts';
import type { Context, Input } from './command.ts';
import { decodeBytes, tailBytes } from './excerpt.ts';
import { exitCodes, refusal } from './failure.ts';
import { neutralizeLines } from './plain-text.ts';
import { findRunId, hintRunId } from './run-id.ts';
import { readInspection } from './runs-show.ts';
import { runDirectoryFor, withReader } from './session.ts';
import { attemptWord } from './step-state.ts';

type Chosen = {
  readonly step: StepInspection;
  readonly attempt: AttemptInspection;
  /** Counted from 1 within the step. */
  readonly ordinal: number;
};

type Found =
  | {
      readonly source: 'kept' | 'live';
      readonly bytes: Uint8Array;
      /** What there is to know about them: some are missing, or there are none yet. */
      readonly remark: string | null;
    }
  | { readonly source: null; readonly why: string };

export async function logsCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const [id = '', stepKey] = input.arguments;
  const { inspection, holder } = await withReader(context, (reader) => ({
    inspection: readInspection(reader, findRunId(reader, id)),
    holder: reader.holder,
  }));
  const runId = inspection.run.id;
  const steps = inspection.steps.filter((step) => stepKey === undefined || step.stepKey === stepKey);
  const hint = `see \`${self} runs show ${hintRunId(runId)}\``;
  if (steps.length === 0) {
    return output.fail(refusal('not-found', `run ${runId} has no step ${stepKey}`, hint));
  }
  const chosen = steps.flatMap((step) => chooseAttempt(step, input.options.attempt ?? null));
  const [step] = steps;
  if (chosen.length === 0 && stepKey !== undefined && step !== undefined) {
    const count = step.attempts.length;
    const what = count === 0 ? 'has not been attempted' : `has ${count} attempts, not ${input.options.attempt}`;
    return output.fail(refusal('not-found', `step ${stepKey} of run ${runId} ${what}`, hint));
  }
  const runDirectory = runDirectoryFor(context, holder);
  const found = chosen.map((one) => ({ ...one, ...findOutput({ data: context.data, runDirectory }, one.attempt) }));
  showOutputs(context, found, { runId, tail: input.options.tail ?? null, isRaw: input.options.raw === true });
  return exitCodes.done;
}

function chooseAttempt(step: StepInspection, asked: number | null): readonly Chosen[] {
  const ordinal = asked ?? step.attempts.length;
  const attempt = step.attempts[ordinal - 1];
  return attempt === undefined ? [] : [{ step, attempt, ordinal }];
}

function findOutput(
  { data, runDirectory }: { readonly data: string; readonly runDirectory: string },
  attempt: AttemptInspection,
): Found {
  const kept = readKept(data, attempt.id);
  if (kept !== null) {
    const remark = attempt.outputTruncated === true ? `only a part of its ${attempt.outputBytes} bytes was kept` : null;
    return { source: 'kept', bytes: kept, remark };
  }
  if (attempt.finishedAtMs !== null) {
    return { source: null, why: whyNotKept(attempt) };
  }
  const directory = attemptDirectory(runDirectory, attempt.id);
  const { bytes, omittedBytes } = readLive(directory, { attemptId: attempt.id, from: 0 });
  const omitted = omittedBytes === 0 ? null : `${omittedBytes} bytes in the middle are gone already`;
  return { source: 'live', bytes, remark: bytes.length === 0 ? 'nothing so far' : omitted };
}

function whyNotKept({ status, outputBytes }: AttemptInspection): string {
  if (outputBytes === 0) {
    return 'it wrote nothing';
  }
  if (status === 'succeeded') {
    return 'its output was not kept: that is done of failures only';
  }
  return outputBytes === null
    ? 'no output of it is known'
    : `its output (${outputBytes} bytes) is not there any more: the oldest goes when there is no room`;
}

type Shown = Chosen & Found;

function showOutputs(
  context: Context,
  found: readonly Shown[],
  options: { readonly runId: string; readonly tail: number | null; readonly isRaw: boolean },
): void {
  const { output } = context;
  const cut = (bytes: Uint8Array) => (options.tail === null ? bytes : tailBytes(bytes, options.tail));
  if (output.isJson) {
    output.printJson({ runId: options.runId, attempts: found.map((one) => outputDocument(one, cut)) });
    return;
  }
  if (found.length === 0) {
    output.note('no step of this run has been attempted');
  }
  const isOne = found.length === 1;
  for (const one of found) {
    const remark = one.source === null ? one.why : one.remark;
    if (!isOne && !options.isRaw) {
      output.print(output.paint(`== ${describe(one)}${remark === null ? '' : `: ${remark}`}`, 'bold'));
    } else if (remark !== null) {
      output.note(`${describe(one)}: ${remark}`);
    }
    if (one.source !== null) {
      const bytes = cut(one.bytes);
      if (options.isRaw) {
        output.write(bytes);
      } else {
        output.printText(asLines(bytes));
      }
    }
  }
}

function describe({ step, attempt, ordinal }: Chosen): string {
  return `${step.stepKey} (attempt ${ordinal}, ${attemptWord(attempt.status)})`;
}

function outputDocument(one: Shown, cut: (bytes: Uint8Array) => Uint8Array): object {
  const { step, attempt, ordinal, source } = one;
  const { id, number, status, outputBytes, outputTruncated } = attempt;
  return {
    stepKey: step.stepKey,
    attempt: ordinal,
    attemptId: id,
    number,
    status,
    outputBytes,
    outputTruncated,
    source,
    reason: one.source === null ? one.why : one.remark,
    // What is no UTF-8 shows as replacement characters; `--raw` without `--json` gives the bytes.
    text: one.source === null ? null : decodeBytes(cut(one.bytes)),
  };
}

function asLines(bytes: Uint8Array): string {
  const text = neutralizeLines(decodeBytes(bytes));
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}
