// What the commands themselves say: one line when they begin, one when they end. Lines are appended whole, so their
// order is the order of what happened.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Site } from './site.ts';

export type TraceLine = {
  readonly kind: 'begin' | 'end' | 'stopped';
  readonly runId: string;
  readonly stepKey: string;
  readonly attemptId: string;
  /** The exit status that the command is about to give; null unless it is an end. */
  readonly status: number | null;
};

/**
 * `work.sh SECONDS STATUS FAILURES`: notes its beginning, works, notes its end. The first FAILURES commands of its step
 * fail with 1: counted by their traces, since the number of an attempt also counts starts that were taken back. TERM
 * ends it, unless STUBBORN is set.
 */
export const workScript = `#!/bin/sh
id="$QL_RUN_ID $QL_STEP_KEY $QL_ATTEMPT_ID"
echo "begin $id" >>"$TRACE"
if [ -n "\${STUBBORN:-}" ]; then trap '' TERM; else trap 'echo "stopped $id" >>"$TRACE"; exit 143' TERM; fi
sleep "$1"
status=$2
[ "$3" = 0 ] || [ "$(grep -c "^begin $QL_RUN_ID $QL_STEP_KEY " "$TRACE")" -gt "$3" ] || status=1
echo "end $id $status" >>"$TRACE"
exit "$status"
`;

export function traceFileOf(site: Site): string {
  return join(site.root, 'trace');
}

export function readTrace(site: Site): readonly TraceLine[] {
  return readText(site)
    .split('\n')
    .slice(0, -1)
    .map((line) => {
      const [kind, runId = '', stepKey = '', attemptId = '', status] = line.split(' ');
      return {
        kind: kind as TraceLine['kind'],
        runId,
        stepKey,
        attemptId,
        status: status === undefined ? null : Number(status),
      };
    });
}

/** How many lines there are by now. */
export function measureTrace(site: Site): number {
  return readText(site).split('\n').length - 1;
}

function readText(site: Site): string {
  try {
    return readFileSync(traceFileOf(site), 'latin1');
  } catch {
    return '';
  }
}
