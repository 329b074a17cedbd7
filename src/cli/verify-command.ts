// `verify`: folds the history of one run, or of all, and compares it with what is recorded; without a run also asks
// SQLite about its file. Changes nothing, but for `--clear`, which takes back a run that is sound again.
import { limits } from '../core/limits.ts';
import { type RunSummary, read } from '../protocol/reads.ts';
import { type ReadPort, type RunVerification, verifyRun } from '../runtime/verification.ts';
import type { Context, Input } from './command.ts';
import { exitCodes } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { findRunId } from './run-id.ts';
import { withReader, withVerbs } from './session.ts';
import type { IntegrityReport } from './storage.ts';
import { formatCount } from './times.ts';

export async function verifyCommand(context: Context, input: Input): Promise<number> {
  const [text] = input.arguments;
  if (text === undefined) {
    // Of its own pages a database server takes care itself.
    const isServer = context.shared !== null;
    return await withReader(context, (reader) => verifyAll(context, reader, isServer ? null : reader.checkIntegrity()));
  }
  const runId = await withReader(context, (reads) => findRunId(reads, text));
  return input.options.clear === true
    ? await clear(context, runId)
    : await withReader(context, (reads) => verifyOne(context, reads, runId));
}

async function verifyOne({ output, self }: Context, reads: ReadPort, runId: string): Promise<number> {
  const verification = await verifyRun(reads, runId);
  const setAside = await reads.read(read('setAside', { runId }));
  if (output.isJson) {
    output.printJson({ ...verification, isSound: isSound(verification), setAside });
  } else {
    output.print(...describeRun(verification));
    if (setAside !== null) {
      const next = isSound(verification) ? `; take it back: ${self} verify ${runId} --clear` : '';
      output.print(neutralize(`it is set aside since it was found damaged: ${setAside.summary}${next}`));
    }
  }
  return isSound(verification) ? exitCodes.done : exitCodes.damaged;
}

/** `integrity` is null where the database looks after its own pages. */
async function verifyAll({ output }: Context, reads: ReadPort, integrity: IntegrityReport | null): Promise<number> {
  const isReadable = (integrity?.problems.length ?? 0) === 0;
  const totals = { runs: 0, events: 0 };
  const unsound: RunVerification[] = [];
  for await (const verification of verifyEach(reads)) {
    totals.runs += 1;
    totals.events += verification.events;
    if (!isSound(verification)) {
      unsound.push(verification);
      if (!output.isJson) {
        output.print(...describeRun(verification));
      }
    }
  }
  const isClean = isReadable && unsound.length === 0;
  if (output.isJson) {
    output.printJson({ isSound: isClean, ...totals, integrity, unsound });
  } else {
    output.print(...(integrity === null ? [] : describeIntegrity(integrity)));
    const counts = `${formatCount(totals.runs, 'run')}, ${formatCount(totals.events, 'event')}`;
    const verdict = unsound.length === 0 ? 'sound' : `${formatCount(unsound.length, 'run')} not sound`;
    output.print(`${counts}: ${isReadable ? verdict : `${verdict}, as far as they could be read`}`);
    nextSteps({ isReadable, isSound: unsound.length === 0 }).forEach(output.note);
  }
  return isClean ? exitCodes.done : exitCodes.damaged;
}

/** What to do about damage. */
function nextSteps({ isReadable, isSound }: { readonly isReadable: boolean; readonly isSound: boolean }) {
  if (!isReadable) {
    return [
      'restore a backup of the whole data directory, and look at the storage that it is on (kernel log)',
      'without a backup: start anew with another --data; what can still be read here stays readable',
    ];
  }
  return isSound
    ? []
    : ['a run that is not sound is set aside when it is met, and all others go on; its evidence is in a backup alone'];
}

/** Page by page, the newest first: a history of any length in bounded memory. */
async function* verifyEach(reads: ReadPort): AsyncGenerator<RunVerification, void> {
  for (let beforeRunId: string | null = null; ; ) {
    const page: readonly RunSummary[] = await reads.read(
      read('runs', { limit: limits.pageMax, beforeRunId, status: null, packageName: null }),
    );
    for (const { runId } of page) {
      yield await verifyRun(reads, runId);
    }
    if (page.length < limits.pageMax) {
      return;
    }
    beforeRunId = page.at(-1)!.runId;
  }
}

function isSound({ differences }: RunVerification): boolean {
  return differences.length === 0;
}

function describeRun({ runId, events, differences }: RunVerification): readonly string[] {
  return differences.length === 0
    ? [`run ${runId} is sound: ${formatCount(events, 'event')} fold to what is recorded`]
    : [`run ${runId} is not sound:`, ...differences.map((difference) => neutralize(`  ${difference}`))];
}

function describeIntegrity({ problems, isComplete }: IntegrityReport): readonly string[] {
  const more = isComplete ? [] : ['  (there may be more)'];
  return problems.length === 0
    ? ['the database file is sound: pages, indexes, constraints, foreign keys']
    : ['the database file is damaged:', ...problems.map((problem) => neutralize(`  ${problem}`)), ...more];
}

async function clear(context: Context, runId: string): Promise<number> {
  const { output } = context;
  return await withVerbs(context, { command: 'verify', mayCreate: false }, async ({ verbs }) => {
    const outcome = await verbs.clearSetAside({ runId });
    if (output.isJson) {
      output.printJson({ outcome: outcome.kind, runId });
    } else {
      output.print(
        outcome.kind === 'cleared' ? `run ${runId} is sound and taken back` : `run ${runId} was not set aside`,
      );
    }
    return exitCodes.done;
  });
}
