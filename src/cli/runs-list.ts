// `runs list`: the newest runs, those set aside included.
import { limits } from '../core/limits.ts';
import { type RunSummary, read } from '../protocol/reads.ts';
import { inspectRunSummary } from '../runtime/inspection.ts';
import type { ReadPort } from '../runtime/verification.ts';
import { type Cell, formatTable } from './columns.ts';
import type { Context, Input } from './command.ts';
import { exitCodes } from './failure.ts';
import { shortRunId } from './run-id.ts';
import { withReader } from './session.ts';
import { describeRun, elapsedOf } from './step-state.ts';
import { formatTime } from './times.ts';

const limitDefault = 20;

/** Below this, ids are shortened: the rest of the table needs the room. */
const wideColumnsMin = 120;

export async function listCommand(context: Context, input: Input): Promise<number> {
  const { output, clock, self } = context;
  const { runs, isAnyThere } = await withReader(context, async (reads) => {
    const found = await readRuns(reads, input.options);
    return { runs: found, isAnyThere: found.length > 0 || (await readRuns(reads, { limit: 1 })).length > 0 };
  });
  if (output.isJson) {
    output.printJson({ runs: runs.map(inspectRunSummary) });
  } else if (runs.length === 0 && isAnyThere) {
    output.note(`${describeNone(input.options)}; see all: ${self} runs list`);
  } else if (runs.length === 0) {
    output.note(`no runs; start one: ${self} run DIR, or ${self} workflow start PKG/WF`);
  } else {
    const { isTty, columns } = output.terminal();
    const isShort = isTty && columns < wideColumnsMin;
    const rows = runs.map((summary) => runRow(summary, { isShort, nowMs: clock.observe().wallMs }));
    output.print(...formatTable(['RUN', 'STATUS', 'WORKFLOW', 'STARTED', 'TOOK', ''], rows, output.paint));
  }
  return exitCodes.done;
}

/** `no failed runs of package demo`. */
function describeNone({ status, package: packageName }: Input['options']): string {
  const kind = status === undefined ? '' : `${describeRun({ status, cancelRequestedAtMs: null }).word} `;
  return `no ${kind}runs${packageName === undefined ? '' : ` of package ${packageName}`}`;
}

async function readRuns(reads: ReadPort, options: Input['options']): Promise<readonly RunSummary[]> {
  const { status = null, package: packageName = null, limit: countMax = limitDefault } = options;
  const runs: RunSummary[] = [];
  for (;;) {
    const limit = Math.min(limits.pageMax, countMax - runs.length);
    const beforeRunId = runs.at(-1)?.runId ?? null;
    const page = await reads.read(read('runs', { limit, beforeRunId, status, packageName }));
    runs.push(...page);
    if (page.length < limit || runs.length === countMax) {
      return runs;
    }
  }
}

function runRow(
  { run, runId, setAside }: RunSummary,
  { isShort, nowMs }: { readonly isShort: boolean; readonly nowMs: number },
): readonly Cell[] {
  const id = isShort ? shortRunId(runId) : runId;
  const aside: Cell = setAside === null ? '' : { text: `set aside: ${setAside.summary}`, tone: 'red' };
  if (run === null) {
    const damaged: Cell = { text: 'damaged', tone: 'red' };
    return [id, damaged, '', '', '', setAside === null ? 'see `verify`' : aside];
  }
  const { word, tone } = describeRun(run);
  return [
    id,
    { text: setAside === null ? word : `${word}?`, tone },
    `${run.packageName}/${run.workflowId}`,
    formatTime(run.startedAtMs),
    elapsedOf(run, nowMs) ?? '',
    aside,
  ];
}
