// What an event of a run's history says beyond its type and its step, in a few words. Pure.
import type { AttemptEndPayload, RunEvent } from '../core/events.ts';
import { neutralize } from './plain-text.ts';
import { nameLimit } from './step-state.ts';
import { formatBytes, formatElapsed } from './times.ts';

/** Neutralized; empty where type and step say everything. */
export function eventPhrase(event: RunEvent): string {
  return neutralize(nameLimit(phraseOf(event) ?? ''));
}

function phraseOf(event: RunEvent): string | null {
  switch (event.type) {
    case 'workflow.admitted': {
      const { packageName, workflowId, generation, requestedBy } = event.payload;
      return `${packageName}/${workflowId}, generation ${generation}, by ${requestedBy}`;
    }
    case 'step.created':
      return event.payload.status === 'pending' ? 'waiting' : event.payload.status;
    case 'step.readied':
      return event.payload.due === null ? null : `in ${formatElapsed(event.payload.due.lengthMs)}`;
    case 'step.skipped':
    case 'step.failed':
    case 'step.cancelled':
    case 'step.timed_out':
      return event.payload.errorSummary ?? event.payload.resultCode.replaceAll('_', ' ');
    case 'attempt.started':
      return event.payload.deadline === null ? null : `for ${formatElapsed(event.payload.deadline.lengthMs)} at most`;
    case 'attempt.succeeded':
    case 'attempt.failed':
    case 'attempt.cancelled':
    case 'attempt.timed_out':
    case 'attempt.lost':
      return phraseOfEnd(event.payload);
    case 'workflow.attempt_stop_requested':
    case 'workflow.cancel_requested':
      return event.payload.reason;
    case 'workflow.succeeded':
    case 'workflow.failed':
    case 'workflow.cancelled':
    case 'workflow.timed_out':
      return event.payload.errorSummary;
    case 'workflow.leftover_found':
    case 'workflow.stop_forced':
    case 'workflow.late_receipt_found':
      return event.payload.summary;
    case 'attempt.claimed':
    case 'attempt.observed':
    case 'workflow.task_timeout_requested':
      return null;
  }
}

function phraseOfEnd({ exitCode, outputBytes, errorSummary, stepStatus, stepDue }: AttemptEndPayload): string {
  const again = stepDue === null ? 'again now' : `again in ${formatElapsed(stepDue.lengthMs)}`;
  const parts = [
    errorSummary ?? (exitCode === null ? null : `exit code ${exitCode}`),
    outputBytes === null ? null : `${formatBytes(outputBytes)} of output`,
    stepStatus === 'ready' ? again : null,
  ];
  return parts.filter((part) => part !== null).join(', ');
}
