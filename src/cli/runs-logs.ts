// `runs logs`: what the commands of a run wrote: kept, or still in the directory of an attempt; and where there is
// nothing, why. Output is data: shown neutralized, and byte for byte only where that is asked for. Following what still
// runs is log-follow.ts.
import { isTerminalRun, isTerminalStep } from '../core/states.ts';
import type { RunInspection } from '../runtime/inspection.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, type Failure, refusal } from './failure.ts';
import { type FoundOutput, findOutput, type OutputPlaces } from './found-output.ts';
import { entryOf, entryText, type LogEntry, type Selection, selectEntries } from './log-entry.ts';
import { createDocumentPrinter } from './log-json.ts';
import { logPart } from './log-part.ts';
import { createRawPrinter, createTextPrinter, type LogPrinter } from './log-printer.ts';
import { showOutput } from './log-show.ts';
import { findRunId, hintRunId } from './run-id.ts';
import { readInspection } from './runs-show.ts';
import { readSettingsToLook, runDirectoryFor, withReader } from './session.ts';
import type { Reader } from './storage.ts';

export async function logsCommand(context: Context, input: Input): Promise<number> {
  const { output } = context;
  const { options } = input;
  const [id = '', stepKey = null] = input.arguments;
  const selection = { stepKey, ordinal: options.attempt ?? null };
  const part = logPart(options, { isTerminal: output.terminal().isTty });
  const isRaw = options.raw === true;
  return await withReader(context, async (reader) => {
    const runId = await findRunId(reader, id);
    const refused = refuse(context, await readInspection(reader, runId), {
      ...selection,
      isFollowed: options.follow === true,
    });
    if (refused !== null) {
      return output.fail(refused);
    }
    if (options.follow === true) {
      const { followLogs } = await import('./log-follow.ts');
      return await followLogs(context, { reader, runId, selection, part, isRaw });
    }
    const runDirectory = runDirectoryFor(context, reader.holder);
    const { settings } = await readSettingsToLook(context, reader);
    const places = { data: context.data, runDirectory, settings, isShared: context.shared !== null };
    const entries = selectEntries(await readInspection(reader, runId), selection);
    const printer = createPrinter(context, { runId, isRaw, hasHeadings: entries.length > 1 });
    if (entries.length === 0 && !output.isJson) {
      output.note('no step of this run has been attempted');
    }
    for (const entry of entries) {
      const found = await findNow({ reader, runId, places }, entry);
      const note = await showOutput(printer, { ...found, part, isRaw });
      if (note !== null && !output.isJson) {
        output.note(`${entryText(found.entry)}: ${note}`);
      }
    }
    printer.close();
    return exitCodes.done;
  });
}

function createPrinter(
  { output }: Context,
  options: { readonly runId: string; readonly isRaw: boolean; readonly hasHeadings: boolean },
): LogPrinter {
  if (output.isJson) {
    return createDocumentPrinter(output, options.runId);
  }
  return options.isRaw ? createRawPrinter(output) : createTextPrinter(output, { ...options, isShared: () => false });
}

/** Why there is nothing to show at all; null where there may be. */
function refuse(
  { self }: Context,
  { run, steps }: RunInspection,
  { stepKey, ordinal, isFollowed }: Selection & { readonly isFollowed: boolean },
): Failure | null {
  const step = steps.find((candidate) => candidate.stepKey === stepKey);
  const hint = `see \`${self} runs show ${hintRunId(run.id)}\``;
  if (stepKey === null) {
    return null;
  }
  if (step === undefined) {
    return refusal('not-found', `run ${run.id} has no step ${stepKey}`, hint);
  }
  const count = step.attempts.length;
  const mayCome = isFollowed && !isTerminalStep(step.status) && !isTerminalRun(run.status);
  if (count === 0 && !mayCome) {
    return refusal('not-found', `step ${stepKey} of run ${run.id} has not been attempted`, hint);
  }
  if (ordinal !== null && ordinal > count) {
    return refusal('not-found', `step ${stepKey} of run ${run.id} has ${count} attempts, not ${ordinal}`, hint);
  }
  return null;
}

type Looking = { readonly reader: Reader; readonly runId: string; readonly places: OutputPlaces };

/** An attempt may end, and its directory go, between two looks: then it is looked for once more. */
async function findNow(
  { reader, runId, places }: Looking,
  entry: LogEntry,
): Promise<{ readonly entry: LogEntry; readonly found: FoundOutput }> {
  const found = findOutput(places, runId, entry.attempt);
  if (found.kind !== 'none' || entry.attempt.finishedAtMs !== null) {
    return { entry, found };
  }
  const { steps } = await readInspection(reader, runId);
  const step = steps.find(({ stepKey }) => stepKey === entry.stepKey);
  const now = (step === undefined ? [] : entryOf(step, entry.ordinal))[0] ?? entry;
  return { entry: now, found: findOutput(places, runId, now.attempt) };
}
