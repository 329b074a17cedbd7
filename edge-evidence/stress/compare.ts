// Compares what the commands did (their traces) with what the product says (its records). Every rule that does not hold
// is one difference, in words.
import { foldHistory } from '../fold.ts';
import { type MixedStep, mixedWorkflows, retryLimitOf } from './mixed-package.ts';
import type { AttemptRecord, RunRecord, StepRecord } from './records.ts';
import type { TraceLine } from './trace.ts';

export type Claim = {
  readonly runId: string;
  /** Lines of the trace when `cancel` had answered: nothing of the run may begin after them. */
  readonly linesAtAnswer: number;
};

const runEnds = ['succeeded', 'failed', 'cancelled', 'timed_out'];
const newsTypes = ['workflow.leftover_found', 'workflow.stop_forced', 'workflow.late_receipt_found'];

/** The runs of a mixed package, all of them at their end. */
export function compareMixedRuns(
  records: readonly RunRecord[],
  trace: readonly TraceLine[],
  claims: readonly Claim[],
): readonly string[] {
  const known = new Set(records.map(({ run }) => run.id));
  const strangers = [...new Set(trace.map(({ runId }) => runId))].filter((runId) => !known.has(runId));
  return [
    ...strangers.map((runId) => `run ${runId} left a trace and has no record`),
    ...records.flatMap((record) => {
      const lines = trace.filter(({ runId }) => runId === record.run.id);
      return [...compareRun(record, lines), ...compareWithPlan(record, lines)].map((what) => tell(record, what));
    }),
    ...claims.flatMap((claim) => compareClaim(claim, records, trace)),
  ];
}

function tell({ run }: RunRecord, what: string): string {
  return `run ${run.id} (${run.workflowId}, ${run.status}): ${what}`;
}

/** What holds for any run at its end, whatever its package. */
export function compareRun(record: RunRecord, lines: readonly TraceLine[]): readonly string[] {
  const { run, steps } = record;
  const attempts = steps.flatMap((step) => step.attempts);
  const unknown = lines.filter(({ attemptId }) => !attempts.some(({ id }) => id === attemptId));
  return [
    ...(runEnds.includes(run.status) ? [] : ['it has not ended']),
    ...(run.cancelRequestedAtMs === null || run.status === 'cancelled' ? [] : ['its cancel intent is not its end']),
    ...unknown.map(({ attemptId }) => `a command of attempt ${attemptId} ran, which has no record`),
    ...steps.flatMap((step) => compareStep(step, lines).map((what) => `step ${step.stepKey}: ${what}`)),
    ...compareHistory(record),
  ];
}

function compareStep(step: StepRecord, lines: readonly TraceLine[]): readonly string[] {
  return step.attempts.flatMap((attempt) => {
    const own = lines.filter(({ attemptId }) => attemptId === attempt.id);
    const what = compareAttempt(attempt, own);
    return what === null ? [] : [`attempt ${attempt.number} (${attempt.status}, exit ${attempt.exitCode}): ${what}`];
  });
}

const stopped = ['cancelled', 'timed_out'];

function compareAttempt(attempt: AttemptRecord, lines: readonly TraceLine[]): string | null {
  const begins = lines.filter(({ kind }) => kind === 'begin').length;
  const end = lines.find(({ kind }) => kind === 'end') ?? null;
  const { status, exitCode, errorCode } = attempt;
  if (begins > 1) {
    return `its command ran ${begins} times`;
  }
  if (begins === 0) {
    // A command that is stopped before its first line has no trace; only such a one.
    const isUnstarted = errorCode === 'start_withdrawn' && exitCode === null;
    return isUnstarted || stopped.includes(status) ? null : 'its command left no trace';
  }
  if (errorCode === 'start_withdrawn') {
    return 'its command ran, and the record says that it never started';
  }
  if (end === null) {
    return stopped.includes(status) ? null : 'its command was stopped before its end, and nobody asked for that';
  }
  if (exitCode !== end.status && !stopped.includes(status)) {
    return `its command ended with ${end.status}`;
  }
  const expected = end.status === 0 ? 'succeeded' : 'failed';
  return status === expected || stopped.includes(status) ? null : `its command ended with ${end.status}`;
}

function compareHistory({ run, steps, events }: RunRecord): readonly string[] {
  const end = events.findIndex(({ type }) => runEnds.includes(type.slice('workflow.'.length)));
  const after = end < 0 ? [] : events.slice(end + 1).filter(({ type }) => !newsTypes.includes(type));
  const late = after.map(({ type }) => `${type} came after its end`);
  try {
    const folded = foldHistory(events);
    const told = steps.map(({ stepRunId, status, version, attemptCount }) => [
      stepRunId,
      status,
      version,
      attemptCount,
    ]);
    const found = folded.steps.map(({ id, status, version, attemptCount }) => [id, status, version, attemptCount]);
    const isSame =
      folded.run.status === run.status &&
      folded.run.version === run.version &&
      JSON.stringify(told.sort()) === JSON.stringify(found.sort());
    return isSame ? late : [...late, 'its history does not fold to its present'];
  } catch (error) {
    return [...late, `its history is one that no run can have: ${error}`];
  }
}

/** What the package says of this workflow. */
function compareWithPlan(record: RunRecord, lines: readonly TraceLine[]): readonly string[] {
  const plan = mixedWorkflows[record.run.workflowId] ?? {};
  const isCancelled = record.run.cancelRequestedAtMs !== null;
  return record.steps.flatMap((step) => {
    const planned = plan[step.stepKey];
    if (planned === undefined) {
      return [`step ${step.stepKey} is not in the package`];
    }
    const own = lines.filter(({ stepKey }) => stepKey === step.stepKey);
    const commands = own.filter(({ kind }) => kind === 'begin').length;
    const isExpected = planned.ends.some(([status, count]) => status === step.status && count === commands);
    const limit = retryLimitOf(planned) + 1;
    return [
      ...(isCancelled || isExpected || isStoppedUntold(step, commands, planned)
        ? []
        : [`it ended ${step.status} after ${commands} commands`]),
      ...(commands > limit ? [`${commands} commands ran, and ${limit} are allowed`] : []),
      ...compareOrder(planned, own, lines),
    ].map((what) => `step ${step.stepKey}: ${what}`);
  });
}

/** One command was stopped at its timeout before it could say that it had begun. */
function isStoppedUntold({ status, attempts }: StepRecord, commands: number, planned: MixedStep): boolean {
  const used = attempts.filter(({ errorCode }) => errorCode !== 'start_withdrawn').length;
  return status === 'timed_out' && commands === used - 1 && planned.ends.some(([end]) => end === status);
}

/** A step begins when all that it needs have ended well, and tries again when the try before is over. */
function compareOrder(planned: MixedStep, own: readonly TraceLine[], lines: readonly TraceLine[]): readonly string[] {
  const first = own[0] === undefined ? null : lines.indexOf(own[0]);
  const early = (planned.needs ?? []).filter((need) => {
    const end = lines.findIndex(({ kind, stepKey, status }) => stepKey === need && kind === 'end' && status === 0);
    return first !== null && (end < 0 || end > first);
  });
  const overlaps = own.filter(
    ({ kind }, index) => kind === 'begin' && index > 0 && own[index - 1]?.kind === 'begin',
  ).length;
  return [
    ...early.map((need) => `it began before ${need} had ended well`),
    ...(overlaps > 0 ? ['a try began before the one before it was over'] : []),
  ];
}

function compareClaim(
  { runId, linesAtAnswer }: Claim,
  records: readonly RunRecord[],
  trace: readonly TraceLine[],
): readonly string[] {
  const record = records.find(({ run }) => run.id === runId);
  const begun = trace.slice(linesAtAnswer).filter((line) => line.runId === runId && line.kind === 'begin');
  return [
    ...(record?.run.status === 'cancelled' ? [] : [`run ${runId} was cancelled, and ended ${record?.run.status}`]),
    ...begun.map(({ stepKey }) => `run ${runId}: step ${stepKey} began after cancel had answered`),
  ];
}
