// What a simulation has to have met: where one of these never happens in some hundred seeds, the simulator has gone
// blind for it, however green it is.
export const interesting = [
  'process died',
  'process opened that does not drive',
  'closed: stop',
  'closed: detach',
  'reboot',
  'clock stepped back',
  'clock stepped on',
  'command ran',
  'handler called',
  'handler aborted',
  'command adopted',
  'attempt.lost',
  'attempt.timed_out',
  'attempt.observed',
  'start taken back',
  'retry',
  'retry after a loss',
  'cancel raced with a command',
  'cancel: requested',
  'cancel: existing',
  'cancel: settled',
  'cancel: user',
  'cancel: timeout',
  'cancel: policy',
  'workflow.succeeded',
  'workflow.failed',
  'workflow.timed_out',
  'workflow.cancelled',
  'workflow.task_timeout_requested',
  'workflow.attempt_stop_requested',
  'step.skipped',
  'storage: busy',
  'storage: full',
  'storage: unknown',
  'database not had back',
  'answer lost',
  'answer: busy',
  'answer: full',
  'answer: unknown-outcome',
  'start: created',
  'start: existing',
  'start: conflict',
  'start: not-allowed',
  'install: installed',
  'uninstalled: changed',
  'disabled: changed',
  'quarantine: quarantined',
  'revocation: revoked',
  'setting: changed',
  'setting missing',
  'session killed',
  'evidence lost',
  'evidence undecidable',
  'shortage at a start',
  'no place for an attempt',
  'run damaged',
  'flood',
  'follower came to the end',
] as const;

export type Counts = Readonly<Record<string, number>>;

/** What of it never happened. */
export function findBlindSpots(counts: Counts): readonly string[] {
  return interesting.filter((name) => (counts[name] ?? 0) === 0);
}

export function addCounts(sums: Map<string, number>, counts: Iterable<readonly [string, number]>): void {
  for (const [name, count] of counts) {
    sums.set(name, count + (sums.get(name) ?? 0));
  }
}

export function formatCounts(counts: Counts): string {
  const names = Object.keys(counts).sort();
  return names.map((name) => `  ${name.padEnd(40)} ${`${counts[name]}`.padStart(8)}`).join('\n');
}
