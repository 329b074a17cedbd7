// Runs at chosen moments, made of real events, for what is shown of them.
import { type AdmissionEvidence, buildReceipt } from '../../src/core/admission.ts';
import { type AttemptEndPayload, draft } from '../../src/core/events.ts';
import type { RunAttempt } from '../../src/core/records.ts';
import { inspectRun, type RunInspection } from '../../src/runtime/inspection.ts';
import { endDraft } from '../core/run-driver.ts';
import { admitStory, append, attemptHead, planOf, type Shape, type Story, stepOf } from '../core/samples.ts';

export { append, stepOf } from '../core/samples.ts';

export function storyOf(shape: Shape): Story & { readonly evidence: AdmissionEvidence } {
  const story = admitStory(planOf(shape));
  const evidence = { plan: story.plan, receipt: buildReceipt(story.plan, story.rows), events: [...story.events] };
  return Object.assign(story, { evidence });
}

export function inspect(story: Story & { readonly evidence: AdmissionEvidence }): RunInspection {
  return inspectRun(story.rows, story.evidence);
}

export function passMs(story: Story, ms: number): void {
  story.wallMs += ms;
}

/** Claims and starts the next attempt of a step. */
export function begin(story: Story, stepKey: string): void {
  const step = stepOf(story, stepKey);
  const head = attemptHead(step);
  const payload = {
    number: story.rows.attempts.size + 1,
    stepRunVersion: step.version,
    executionDigest: 'e'.repeat(64),
  };
  append(story, draft('attempt.claimed', { ...payload, executorType: 'process' }, head));
  append(story, draft('attempt.started', { deadline: null, bootId: 'boot-1' }, head));
}

function lastAttempt(story: Story, stepKey: string): RunAttempt {
  const step = stepOf(story, stepKey);
  return [...story.rows.attempts.values()].filter(({ stepRunId }) => stepRunId === step.id).at(-1)!;
}

export function succeed(story: Story, stepKey: string, known: Partial<AttemptEndPayload> = {}): void {
  append(story, endDraft(lastAttempt(story, stepKey), 'succeeded', { exitCode: 0, ...known }));
}

const failure = { exitCode: 3, outputBytes: 12, errorCode: 'exit_code', errorSummary: 'exit code 3' } as const;

export function fail(story: Story, stepKey: string, known: Partial<AttemptEndPayload> = failure): void {
  const end = { ...known, stepStatus: 'failed', stepResultCode: 'exit_code' } as const;
  append(story, endDraft(lastAttempt(story, stepKey), 'failed', end));
}

export function failForRetry(story: Story, stepKey: string, afterMs: number): void {
  const due = { startMs: story.wallMs, startUptimeMs: 7, bootId: 'boot-1', lengthMs: afterMs };
  append(story, endDraft(lastAttempt(story, stepKey), 'failed', { ...failure, stepStatus: 'ready', stepDue: due }));
}

export function ready(story: Story, stepKey: string): void {
  append(story, draft('step.readied', { due: null }, { stepRunId: stepOf(story, stepKey).id }));
}

export function skip(story: Story, stepKey: string, why: string): void {
  const payload = { resultCode: 'dependency_not_succeeded', errorSummary: why };
  append(story, draft('step.skipped', payload, { stepRunId: stepOf(story, stepKey).id }));
}
