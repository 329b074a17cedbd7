// To what other end a fault may bring an operation, and why: nothing else is excused. Told by what the fault really
// met, from the recording of the execution that it met.
import { constants } from 'node:os';
import type { Operation, Site } from '../operation.ts';
import { findRunsTrouble } from '../operations/cut-package.ts';
import { notKept } from '../operations/runs.ts';
import type { Call } from '../recorder/recording.ts';
import type { Fault } from '../recorder/shim.ts';

export type Struck = {
  readonly operation: Pick<Operation, 'name'>;
  readonly site: Site;
  readonly fault: Pick<Fault, 'error' | 'lasts'>;
  /** Of the execution that met the fault. */
  readonly calls: readonly Call[];
};

/** What `operation.findTrouble` may say after this fault. */
export function findExcused({ operation, site, fault, calls }: Struck): readonly string[] {
  if (operation.name === 'kept-output') {
    // An attempt whose output could not be kept ends all the same.
    return hasStruckKeeping(calls, fault) ? [notKept] : [];
  }
  if (operation.name === 'attempt-timeout') {
    // A stop is durable before it is sent. While nothing becomes durable the command runs on, to its own end; only its
    // success is excused, and only together with what else is asked for.
    const hasSucceeded = fault.lasts && findRunsTrouble(site, 'succeeded').length === 0;
    return hasSucceeded ? findRunsTrouble(site, 'timed_out') : [];
  }
  return [];
}

/** The call that tells which file a call is about: itself, or the last that opened its descriptor. */
export function findNaming(calls: readonly Call[], call: Call): Call | undefined {
  return call.path !== ''
    ? call
    : calls.findLast(({ number, fd, path }) => number <= call.number && fd === call.fd && path !== '');
}

const isAtOutputs = ({ path }: Call) => /\/data\/artifacts(\/|$)/.test(path);

/** Whether one of the calls by which an output is kept was made to fail. */
export function hasStruckKeeping(calls: readonly Call[], { error }: Pick<Fault, 'error'>): boolean {
  const errno = constants.errno[error];
  return calls.some((call) => {
    const naming = call.result === -errno ? findNaming(calls, call) : undefined;
    if (naming === undefined) {
      return false;
    }
    // When the folder was made just now, its name is made durable in the folder above.
    const before = calls[calls.indexOf(naming) - 1];
    return isAtOutputs(naming) || (before?.kind === 'mkdir' && isAtOutputs(before));
  });
}
