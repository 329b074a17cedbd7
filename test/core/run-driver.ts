// Random legal histories: a run driven through frontier, attempts, cancellation and news by a list of choices, the way
// the protocols drive it. What is possible is written from the design, not taken from the code that decides it.
import { decideConvergence } from '../../src/core/cancellation.ts';
import { type AttemptFacts, decideCompletion } from '../../src/core/completion.ts';
import { type AttemptEndPayload, type AttemptEndStatus, draft, type EventDraft } from '../../src/core/events.ts';
import { decideFrontier } from '../../src/core/frontier.ts';
import type { Plan, PlanStep } from '../../src/core/plan.ts';
import type { RunAttempt, Span, StepRun } from '../../src/core/records.ts';
import type { RetryPolicy } from '../../src/core/retry.ts';
import { cancelReasons, isTerminalAttempt, isTerminalStep } from '../../src/core/states.ts';
import { admitStory, append, attemptHead, type Story } from './samples.ts';

type Action = (story: Story) => void;

const due = (story: Story): Span => ({ startMs: story.wallMs, startUptimeMs: 7, bootId: 'boot-1', lengthMs: 5_000 });

const noOutcome: AttemptEndPayload = {
  exitCode: null,
  signal: null,
  outputBytes: null,
  outputTruncated: null,
  finishedAtMs: null,
  durationMs: null,
  errorCode: null,
  errorSummary: null,
  stepStatus: 'succeeded',
  stepResultCode: null,
  stepDue: null,
};

/** Ends an attempt and its step together. */
export function endDraft(
  attempt: RunAttempt,
  status: AttemptEndStatus,
  change: Partial<AttemptEndPayload>,
): EventDraft {
  const head = { stepRunId: attempt.stepRunId, attemptId: attempt.id, actorType: 'executor' as const };
  return draft(`attempt.${status}`, { ...noOutcome, ...change }, head);
}

function claimActions(step: StepRun): Action[] {
  const executionDigest = 'e'.repeat(64);
  return [
    (story) => {
      const payload = { number: story.rows.attempts.size + 1, stepRunVersion: step.version, executionDigest };
      append(story, draft('attempt.claimed', { ...payload, executorType: 'process' }, attemptHead(step)));
    },
  ];
}

/** What may happen to a claimed attempt: the barrier, or being given up without a retry being used. */
function claimedActions(attempt: RunAttempt): Action[] {
  const head = { stepRunId: attempt.stepRunId, attemptId: attempt.id };
  const start: Action = (story) => {
    append(story, draft('attempt.started', { deadline: due(story), bootId: 'boot-1' }, head));
  };
  return [
    ...[start, start, start, start, start],
    (story) => append(story, draft('attempt.started', { deadline: null, bootId: 'boot-2' }, head)),
    (story) => append(story, endDraft(attempt, 'lost', { stepStatus: 'ready', stepDue: due(story) })),
    (story) => append(story, endDraft(attempt, 'lost', { stepStatus: 'failed', stepResultCode: 'attempts_exhausted' })),
  ];
}

function startedActions(attempt: RunAttempt): Action[] {
  const head = { stepRunId: attempt.stepRunId, attemptId: attempt.id };
  const failed = {
    exitCode: 3,
    errorCode: 'exit_code',
    errorSummary: 'exit 3',
    outputBytes: 10,
    outputTruncated: false,
    durationMs: 30,
  };
  const lost = { errorCode: 'lost', errorSummary: 'nobody knows' };
  const end = (status: AttemptEndStatus, change: (story: Story) => Partial<AttemptEndPayload>): Action => {
    return (story) => append(story, endDraft(attempt, status, change(story)));
  };
  if (attempt.stopReason === 'timeout') {
    return [
      end('timed_out', () => ({ signal: 'SIGTERM', stepStatus: 'timed_out', stepResultCode: 'timed_out' })),
      end('timed_out', (story) => ({ signal: 'SIGKILL', stepStatus: 'ready', stepDue: due(story) })),
    ];
  }
  const lostEnds = [
    end('lost', () => ({ ...lost, stepStatus: 'lost', stepResultCode: 'lost' })),
    end('lost', () => ({ ...lost, stepStatus: 'failed', stepResultCode: 'lost' })),
    end('lost', (story) => ({ ...lost, stepStatus: 'ready', stepDue: due(story) })),
  ];
  if (attempt.stopReason === 'shutdown') {
    return lostEnds;
  }
  const observe: Action[] =
    attempt.status === 'starting' ? [(story) => append(story, draft('attempt.observed', {}, head))] : [];
  const succeed = end('succeeded', () => ({ exitCode: 0, outputBytes: 0, outputTruncated: false }));
  return [
    ...[succeed, succeed, succeed, succeed, succeed, succeed],
    end('succeeded', ({ rows }) => ({ exitCode: 0, finishedAtMs: rows.run.updatedAtMs, durationMs: 12 })),
    end('failed', () => ({ ...failed, stepStatus: 'failed', stepResultCode: 'exit_code' })),
    end('failed', (story) => ({ ...failed, stepStatus: 'ready', stepDue: due(story) })),
    ...lostEnds,
    ...observe,
    (story) => append(story, draft('workflow.task_timeout_requested', {}, head)),
    (story) => append(story, draft('workflow.attempt_stop_requested', { reason: 'shutdown' }, head)),
  ];
}

const output = { outputBytes: 12, outputTruncated: true, finishedAtMs: 5, durationMs: 40, note: null, isStopped: true };
const facts: readonly AttemptFacts[] = [
  { kind: 'exited', exitCode: 0, signal: null, ...output },
  { kind: 'exited', exitCode: 3, signal: null, ...output, note: 'perhaps a signal' },
  { kind: 'exited', exitCode: null, signal: 'SIGKILL', ...output },
  { kind: 'returned', errorSummary: null },
  { kind: 'returned', errorSummary: 'threw' },
  { kind: 'spawn-failed', errorCode: 'ENOENT', errorSummary: 'no such file' },
  { kind: 'withdrawn' },
  { kind: 'lost', errorSummary: null },
];
const policies: readonly RetryPolicy[] = [
  { limit: 2, backoffMs: 1_000, factor: 2, maxMs: 60_000, on: ['failed', 'lost', 'timed_out'] },
  { limit: 0, backoffMs: 0, factor: 1, maxMs: 0, on: ['failed'] },
];

/** The same ends as the product decides them: every kind of fact under every policy. */
function completeActions(story: Story, attempt: RunAttempt): Action[] {
  const step = story.rows.steps.get(attempt.stepRunId)!;
  const attempts = [...story.rows.attempts.values()].filter(({ stepRunId }) => stepRunId === step.id);
  const now = { wallMs: story.wallMs, uptimeMs: 9, bootId: 'boot-1' };
  return facts.flatMap((fact) => {
    return policies.map((policy): Action => {
      const input = { run: story.rows.run, step, attempts, attempt, facts: fact, policy, now };
      return (it) => append(it, ...decideCompletion(input));
    });
  });
}

/** What ends a step or an attempt once the run has a cancel intent. */
function convergeActions(story: Story, step: StepRun, attempt: RunAttempt | undefined): Action[] {
  const isTimeout = story.rows.run.cancelReason === 'timeout';
  const code = isTimeout ? 'workflow_timed_out' : 'workflow_cancelled';
  if (attempt !== undefined) {
    const end = isTimeout ? 'timed_out' : 'cancelled';
    const change = { errorCode: code, stepStatus: end, stepResultCode: code } as const;
    return [(it) => append(it, endDraft(attempt, end, change)), ...completeActions(story, attempt)];
  }
  const payload = { resultCode: code, errorSummary: null };
  const end = isTimeout && step.status === 'ready' ? 'step.timed_out' : 'step.cancelled';
  return isTerminalStep(step.status) ? [] : [(it) => append(it, draft(end, payload, { stepRunId: step.id }))];
}

function stepActions(story: Story, { stepRunId }: PlanStep): Action[] {
  const step = story.rows.steps.get(stepRunId)!;
  const attempts = [...story.rows.attempts.values()].filter((attempt) => attempt.stepRunId === step.id);
  const open = attempts.find((attempt) => !isTerminalAttempt(attempt.status));
  if (story.rows.run.cancelRequestedAtMs !== null) {
    return convergeActions(story, step, open);
  }
  if (open !== undefined) {
    const byHand = open.status === 'claimed' ? claimedActions(open) : startedActions(open);
    return open.status === 'claimed' ? byHand : [...byHand, ...completeActions(story, open)];
  }
  switch (step.status) {
    case 'ready':
      return claimActions(step);
    case 'lost':
      return [
        (it) => append(it, draft('step.failed', { resultCode: 'lost', errorSummary: 'lost' }, { stepRunId })),
        (it) => append(it, draft('step.readied', { due: due(it) }, { stepRunId })),
      ];
    default:
      return [];
  }
}

/** The whole run's own actions: an intent, time that passes or steps, and its end after an intent. */
function runActions(story: Story): Action[] {
  const { run, steps } = story.rows;
  if (run.cancelRequestedAtMs === null) {
    const reason = cancelReasons[story.events.length % cancelReasons.length]!;
    return [(it) => append(it, draft('workflow.cancel_requested', { reason }, { actorType: 'operator' }))];
  }
  const end = run.cancelReason === 'timeout' ? 'workflow.timed_out' : 'workflow.cancelled';
  const payload = { errorCode: 'cancel_requested', errorSummary: run.cancelReason };
  const isOver = [...steps.values()].every((step) => isTerminalStep(step.status));
  const { events } = decideConvergence({ run, steps, attempts: openAttempts(story) });
  const converge: Action[] = events.length > 0 ? [(it) => append(it, ...events)] : [];
  return isOver ? [(it) => append(it, draft(end, payload)), ...converge] : converge;
}

function openAttempts(story: Story): ReadonlyMap<string, RunAttempt> {
  return new Map([...story.rows.attempts].filter(([, { status }]) => !isTerminalAttempt(status)));
}

function tellNews(story: Story, choices: readonly number[]): void {
  const types = ['workflow.leftover_found', 'workflow.stop_forced', 'workflow.late_receipt_found'] as const;
  for (const choice of choices.slice(0, 8)) {
    append(story, draft(types[choice % types.length]!, { summary: `pid ${choice}` }));
  }
}

/**
 * Tells a run from its admission on. Each choice is one action, and how far the wall clock moves before it; a run that
 * is still going when the choices end is left as it is, one that ended before gets the rest as news.
 */
export function tellStory(plan: Plan, choices: readonly { action: number; clockMs: number }[]): Story {
  const story = admitStory(plan);
  for (const [index, { action, clockMs }] of choices.entries()) {
    story.wallMs = Math.max(0, story.wallMs + clockMs);
    const decision = decideFrontier(plan, story.rows);
    if (decision.kind === 'settled') {
      tellNews(
        story,
        choices.slice(index).map((choice) => choice.action),
      );
      break;
    }
    if (decision.kind !== 'unchanged') {
      append(story, ...decision.events);
      continue;
    }
    // An intent is the rarest of the choices, so that most runs get somewhere.
    const actions = plan.steps.flatMap((step) => stepActions(story, step));
    const wanted = actions.length === 0 || action % 41 === 40 ? [...runActions(story), ...actions] : actions;
    wanted[action % 41 === 40 ? 0 : action % wanted.length]!(story);
  }
  return story;
}
