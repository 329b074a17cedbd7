// Verification: folds a run's history and compares it with the present records, and with the admission's evidence.
// Changes nothing.
import { verifyAdmission } from '../core/admission.ts';
import { canonicalJson } from '../core/canonical-json.ts';
import { isEdgeError } from '../core/errors.ts';
import { evolve } from '../core/evolve.ts';
import { decideFrontier } from '../core/frontier.ts';
import { limits } from '../core/limits.ts';
import type { RunRows } from '../core/records.ts';
import { isTerminalRun } from '../core/states.ts';
import { type ReadName, type ReadRequest, type Reads, read } from '../protocol/reads.ts';

/** Anything that answers reads: an open store, or a reader beside it. */
export type ReadPort = { read<N extends ReadName>(request: ReadRequest<N>): Promise<Reads[N]['rows']> };

export type RunVerification = {
  readonly runId: string;
  readonly events: number;
  readonly differences: readonly string[];
};

/** Every difference between a run's history, its records and its admission; none for a sound run. */
export async function verifyRun(port: ReadPort, runId: string): Promise<RunVerification> {
  const differences: string[] = [];
  let events = 0;
  try {
    const admission = await port.read(read('admissionOfRun', { runId }));
    const present = await port.read(read('wholeRun', { runId }));
    if (admission === null || present === null) {
      return { runId, events, differences: [`the ${admission === null ? 'admission' : 'run'} is missing`] };
    }
    verifyAdmission(admission);
    const folded = await foldHistory(port, runId);
    events = folded?.run.eventSequence ?? 0;
    differences.push(...compareRows(folded, present));
    if (isTerminalRun(present.run.status)) {
      decideFrontier(admission.plan, present);
    }
  } catch (error) {
    differences.push(isEdgeError(error) || error instanceof Error ? error.message : String(error));
  }
  return { runId, events, differences };
}

async function foldHistory(port: ReadPort, runId: string): Promise<RunRows | null> {
  let rows: RunRows | null = null;
  for (;;) {
    const after: number = rows?.run.eventSequence ?? 0;
    const page = await port.read(read('events', { runId, after, limit: limits.pageMax }));
    for (const event of page) {
      rows = evolve(rows, event);
    }
    if (page.length < limits.pageMax) {
      return rows;
    }
  }
}

function compareRows(folded: RunRows | null, present: RunRows): readonly string[] {
  if (folded === null) {
    return ['the run has no events'];
  }
  const differences: string[] = [];
  const compare = (what: string, left: object | undefined, right: object | undefined) => {
    if (left === undefined || right === undefined) {
      differences.push(`${what} is ${left === undefined ? 'not in the history' : 'missing'}`);
    } else if (canonicalJson(left) !== canonicalJson(right)) {
      const fields = Object.keys(left).filter(
        (key) => canonicalJson(left[key as keyof typeof left]) !== canonicalJson(right[key as keyof typeof right]),
      );
      differences.push(`${what} differs from its history in ${fields.join(', ')}`);
    }
  };
  compare('the run', folded.run, present.run);
  for (const id of new Set([...folded.steps.keys(), ...present.steps.keys()])) {
    const step = folded.steps.get(id) ?? present.steps.get(id);
    compare(`step ${step?.stepKey}`, folded.steps.get(id), present.steps.get(id));
  }
  for (const id of new Set([...folded.attempts.keys(), ...present.attempts.keys()])) {
    const attempt = folded.attempts.get(id) ?? present.attempts.get(id);
    compare(`attempt ${attempt?.number}`, folded.attempts.get(id), present.attempts.get(id));
  }
  return differences;
}
