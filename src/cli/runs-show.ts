// `runs show`: one run as it is now, with its steps and attempts.
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { type Reads, read } from '../protocol/reads.ts';
import { type AttemptInspection, inspectRun, type RunInspection } from '../runtime/inspection.ts';
import type { ReadPort } from '../runtime/verification.ts';
import { type Cell, formatPairs, formatTable } from './columns.ts';
import type { Context, Input } from './command.ts';
import { exitCodes } from './failure.ts';
import { paintLine } from './line.ts';
import { outputHint } from './result.ts';
import { findRunId, hintRunId } from './run-id.ts';
import { withReader } from './session.ts';
import { attemptWord, describeRun, elapsedOf, nameLimit } from './step-state.ts';
import { glyphsOf } from './terminal.ts';
import { formatBytes, formatTime } from './times.ts';
import { treeRows } from './tree.ts';

type SetAside = Reads['setAside']['rows'];

export async function showCommand(context: Context, input: Input): Promise<number> {
  const { output } = context;
  const { inspection, setAside } = await withReader(context, async (reads) => {
    const runId = await findRunId(reads, input.arguments[0]!);
    return {
      inspection: await readInspection(reads, runId),
      setAside: await reads.read(read('setAside', { runId })),
    };
  });
  if (output.isJson) {
    output.printJson(inspection);
  } else {
    output.print(...showRun(context, inspection, setAside));
  }
  return exitCodes.done;
}

/** Throws `damaged` where the run's evidence is. */
export async function readInspection(reads: ReadPort, runId: string): Promise<RunInspection> {
  const rows = await reads.read(read('wholeRun', { runId }));
  const admission = await reads.read(read('admissionOfRun', { runId }));
  if (rows === null || admission === null) {
    throw new EdgeError('damaged', `run ${runId} has lost its ${rows === null ? 'records' : 'admission'}`, {
      hint: `run \`verify ${hintRunId(runId)}\``,
    });
  }
  return inspectRun(rows, admission, await reads.read(read('retriesOfRun', { runId, limit: limits.pageMax })));
}

function showRun(context: Context, inspection: RunInspection, setAside: SetAside): readonly string[] {
  const { output, clock, self } = context;
  const { paint } = output;
  const { run, retriedByRunIds } = inspection;
  const nowMs = clock.observe().wallMs;
  const { word, tone } = describeRun(run);
  const took = run.finishedAtMs === null ? `for ${elapsedOf(run, nowMs)} so far` : `took ${elapsedOf(run, nowMs)}`;
  const pairs: readonly (readonly [string, Cell | null])[] = [
    ['run', run.id],
    ['workflow', `${run.packageName}/${run.workflowId}, generation ${run.generation}`],
    ['status', { text: word, tone }],
    [
      'set aside',
      setAside === null ? null : { text: `${setAside.summary} (see \`verify ${hintRunId(run.id)}\`)`, tone: 'red' },
    ],
    ['why', run.status === 'succeeded' ? null : run.errorSummary],
    ['started', `${formatTime(run.startedAtMs)} by ${run.requestedBy}, ${took}`],
    [
      'cancelled',
      run.cancelRequestedAtMs === null ? null : `${formatTime(run.cancelRequestedAtMs)} (${run.cancelReason})`,
    ],
    ['key', run.idempotencyKey],
    ['retry of', run.retryOfRunId],
    ['retried by', retriedByRunIds.length === 0 ? null : retriedByRunIds.join(', ')],
  ];
  const glyphs = glyphsOf(output.terminal());
  const options = { nowMs, glyphs, lastLines: new Map(), titles: new Map(), widthMax: null };
  const attempts = attemptRows(inspection, nowMs);
  const hint = outputHint(inspection, self);
  const heading = ['STEP', 'ATTEMPT', 'STATE', 'STARTED', 'TOOK', 'EXIT', 'OUTPUT', 'WHY'];
  return [
    ...formatPairs(pairs, paint),
    '',
    ...treeRows(inspection, options).map(({ line }) => paintLine(line, paint)),
    ...(attempts.length === 0 ? [] : ['', ...formatTable(heading, attempts, paint)]),
    ...(hint === null ? [] : ['', paint(hint, 'dim')]),
  ];
}

/** In the order in which they started, those that have not at the end; of equals in that of the steps. */
function attemptRows({ steps }: RunInspection, nowMs: number): readonly (readonly Cell[])[] {
  return steps
    .flatMap(({ stepKey, attempts }) => attempts.map((attempt, index) => ({ stepKey, attempt, ordinal: index + 1 })))
    .sort((left, right) => startOf(left.attempt) - startOf(right.attempt))
    .map(({ stepKey, attempt, ordinal }) => [
      stepKey,
      `${ordinal}`,
      attemptWord(attempt),
      attempt.startedAtMs === null ? '' : formatTime(attempt.startedAtMs),
      elapsedOf(attempt, nowMs) ?? '',
      attempt.signal ?? (attempt.exitCode === null ? '' : `${attempt.exitCode}`),
      outputText(attempt),
      nameLimit(attempt.errorSummary ?? ''),
    ]);
}

/** Of an output that could not be taken at all, nobody counted the bytes. */
function outputText({ outputBytes, outputTruncated }: AttemptInspection): string {
  if (outputBytes === null) {
    return '';
  }
  return outputBytes === 0 && outputTruncated
    ? 'not kept'
    : `${formatBytes(outputBytes)}${outputTruncated ? ', cut' : ''}`;
}

function startOf({ startedAtMs }: AttemptInspection): number {
  return startedAtMs ?? Number.MAX_SAFE_INTEGER;
}
