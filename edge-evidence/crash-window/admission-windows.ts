// The windows of an admission that were named before there was a product: six moments inside the transaction, and both
// sides of its COMMIT.
import type { Ended } from '../operation.ts';
import { readAnswer } from '../operations/cut-package.ts';
import { commitPoints, type Point } from './point.ts';
import type { WindowResult } from './window.ts';

export type AdmissionWindow = {
  readonly name: string;
  /** The name of its point, and which of the points of that name it is, counted from 1. */
  readonly point: string;
  readonly nth: number;
  /** Whether the admission is durable there. */
  readonly isDurable: boolean;
};

const within = (name: string, table: string, nth: number): AdmissionWindow => ({
  name: `admission: after the ${name}`,
  point: `after INSERT INTO ${table}`,
  nth,
  isDurable: false,
});

export const admissionWindows: readonly AdmissionWindow[] = [
  within('Run', 'RunRecords', 1),
  within('admission event', 'RunEvents', 1),
  within('first StepRun', 'RunRecords', 2),
  // A mutation is the event that changed a step.
  within('first mutation', 'RunEvents', 2),
  within('admission row', 'QingLong3PluginPackageWorkflowAdmissions', 1),
  within('first admission step', 'QingLong3PluginPackageWorkflowAdmissionSteps', 1),
  { name: 'admission: before COMMIT', point: commitPoints.before, nth: 1, isDurable: false },
  { name: 'admission: after COMMIT', point: commitPoints.after, nth: 1, isDurable: true },
];

/** The number of its point, counted from 1; 0 where the execution has no such point. */
export function findWindowPoint({ point, nth }: AdmissionWindow, points: readonly Point[]): number {
  const numbers = points.flatMap(({ name }, index) => (name === point ? [index + 1] : []));
  return numbers[nth - 1] ?? 0;
}

/** What the first and the second replay must answer. */
export function expectedOutcomes({ isDurable }: AdmissionWindow): readonly [string, string] {
  return [isDurable ? 'existing' : 'created', 'existing'];
}

/** The figures by which anybody can tell whether the window held. */
export function admissionFigures(result: WindowResult): Readonly<Record<string, number>> {
  const outcomes = result.replays.map((answer) => `${readAnswer(answer)['outcome']}`);
  const receipts = new Set(result.replays.map(receiptDigestOf));
  return {
    windows: 1,
    killed: result.point === null ? 0 : 1,
    rowsLeft: result.runRows,
    created: outcomes.filter((outcome) => outcome === 'created').length,
    existing: outcomes.filter((outcome) => outcome === 'existing').length,
    receipts: receipts.size,
  };
}

/** What figures of a window must be; rows are all there or none of them is. */
export function findFigureTrouble(
  window: AdmissionWindow,
  figures: Readonly<Record<string, number>>,
): readonly string[] {
  const expected = {
    killed: 1,
    created: window.isDurable ? 0 : 1,
    existing: window.isDurable ? 2 : 1,
    receipts: 1,
    ...(window.isDurable ? {} : { rowsLeft: 0 }),
  };
  const wrong = Object.entries(expected).filter(([name, value]) => figures[name] !== value);
  const isGone = window.isDurable && !((figures['rowsLeft'] ?? 0) > 0);
  return [
    ...wrong.map(([name, value]) => `${name} is ${figures[name]} instead of ${value}`),
    ...(isGone ? ['the admission is gone, which was committed'] : []),
  ];
}

function receiptDigestOf(answer: Ended): unknown {
  const receipt = readAnswer(answer)['receipt'] as { readonly receiptDigest?: unknown } | undefined;
  return receipt?.receiptDigest;
}
