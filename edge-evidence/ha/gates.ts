// What a failover has to keep: every gate by name, and the controls, which have to fail. A report without one of them
// is none.
import type { Report, ReportMode, Scenario } from '../report.ts';

export type Gate = { readonly name: string; readonly mode: ReportMode; readonly isControl: boolean };

const gate = (name: string): Gate => ({ name, mode: 'remote-apply', isControl: false });
const control = (name: string, mode: ReportMode = 'remote-apply'): Gate => ({ name, mode, isControl: true });

export const gates = {
  applied: gate('what is acknowledged is applied on the standby already'),
  waiting: gate('what is not applied on the standby is not acknowledged'),
  doubted: gate('an operation that the failover interrupts is told as unknown'),
  fenced: gate('the old primary acknowledges nothing: cut off, killed, or started again alone'),
  promoted: gate('the standby is promoted, from timeline 1 to 2, and takes commits'),
  kept: gate('nothing acknowledged is missing'),
  receipts: gate('every receipt is the same, byte for byte'),
  replayed: gate('every operation given again is answered as before the failover'),
  settled: gate('what was in doubt happened whole or not at all, and giving it again tells which'),
  ended: gate('two fresh runtimes carry every run on to its right end'),
  once: gate('no step has two attempts that succeeded, or one that nobody accounts for'),
  folded: gate('every history folds to the records, by the second fold'),
  rejoined: gate('the old primary comes back as a standby on timeline 2'),
  equal: gate('its tables are those of the new primary, row for row'),
  forgotten: gate('what only the old primary had is gone from it'),
  loaded: gate('a primary killed under load: what was acknowledged is there, what was refused is not'),
} as const satisfies Record<string, Gate>;

export const controls = {
  unapplied: control('control: synchronous_commit = on acknowledges what is not applied'),
  unpromoted: control('control: a standby that nobody promoted'),
  unfenced: control('control: an old primary without synchronous standbys acknowledges'),
  altered: control('control: a receipt of which one number was altered'),
  unended: control('control: runs that nobody carried on'),
  stale: control('control: a standby on which replay is paused'),
  lost: control('control: the tail that asynchronous replication loses', 'asynchronous'),
} as const satisfies Record<string, Gate>;

export const allGates: readonly Gate[] = [...Object.values(gates), ...Object.values(controls)];

/** Gates that a report of a failover has to have and has not. */
export function findMissingGates({ scenarios }: Pick<Report, 'scenarios'>): readonly Gate[] {
  const isThere = ({ name, mode, isControl }: Gate) =>
    scenarios.some((scenario: Scenario) => {
      return scenario.name === name && scenario.mode === mode && scenario.isControl === isControl;
    });
  return allGates.filter((entry) => !isThere(entry));
}
