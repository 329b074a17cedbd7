// The report of `npm run stress`: its form, and how people read it.
import type { OutputFigure } from './outputs.ts';
import type { Profile } from './site.ts';

export type Scenario = {
  readonly name: string;
  readonly profile: Profile;
  readonly figures: Readonly<Record<string, number>>;
  readonly outputs: readonly OutputFigure[];
  readonly differences: readonly string[];
};

export type StressReport = {
  readonly schema: 'qinglong/stress@v1';
  readonly kind: 'stress';
  readonly subject: { readonly bundleSha256: string; readonly node: string; readonly arch: string };
  readonly parameters: {
    readonly seed: number;
    readonly kills: number;
    readonly cancels: number;
    /** Of the amounts of hostile output. */
    readonly scale: number;
    readonly profiles: readonly Profile[];
  };
  readonly scenarios: readonly Scenario[];
  readonly summary: { readonly scenarios: number; readonly passed: number; readonly failed: number };
  /** What it does not prove. */
  readonly limits: readonly string[];
};

export function printReport({ subject, parameters, scenarios, summary, limits }: StressReport): string {
  const lines = [
    `bundle ${subject.bundleSha256.slice(0, 16)}, Node ${subject.node}, ${subject.arch}`,
    `seed ${parameters.seed}: ${parameters.kills} kills, ${parameters.cancels} cancels, output x ${parameters.scale}`,
    ...scenarios.flatMap(printScenario),
    '',
    ...limits.map((limit) => `not shown: ${limit}`),
    `${summary.scenarios} scenarios, ${summary.passed} passed, ${summary.failed} failed`,
  ];
  return `${lines.join('\n')}\n`;
}

function printScenario({ name, profile, figures, outputs, differences }: Scenario): readonly string[] {
  const told = Object.entries(figures).map(([key, value]) => `  ${inWords(key).padEnd(24)} ${value}`);
  return [
    '',
    `${profile}, ${name}: ${differences.length} differences`,
    ...told,
    ...(outputs.length === 0 ? [] : printOutputs(outputs)),
    ...differences.map((what) => `  DIFFERENCE ${what}`),
  ];
}

/** `endedWhileDead` as `ended while dead`. */
function inWords(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function printOutputs(outputs: readonly OutputFigure[]): readonly string[] {
  const head = ['OUTPUT', 'PEAK', 'AFTER', 'COUNTED', 'KEPT', 'EXIT', 'DRAIN'];
  const rows = outputs.map((figure) => [
    figure.what,
    `${figure.peakGrowthKib} KiB`,
    `${figure.growthKib} KiB`,
    `${figure.outputBytes} B`,
    `${figure.keptBytes} B${figure.isTruncated === true ? ', cut' : ''}`,
    `${figure.exitCode}`,
    `${figure.drainMs} ms`,
  ]);
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  return [head, ...rows].map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd(),
  );
}
