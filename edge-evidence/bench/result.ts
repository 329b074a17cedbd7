// The result of the bench, as it is written, drawn and printed. Its form is in schema/bench.schema.json.
import type { BenchEnvironment } from './environment.ts';
import type { Figure, Profile } from './figure.ts';

export type ResultFigure = { readonly row: string } & Figure;

export type Skipped = { readonly name: string; readonly reason: string };

export type BenchResult = {
  readonly schema: 'qinglong/bench@v1';
  readonly subject: {
    readonly bundleSha256: string;
    readonly version: string;
  };
  readonly environment: BenchEnvironment;
  readonly parameters: {
    readonly repeats: number;
    readonly only: readonly string[];
    readonly profiles: readonly Profile[];
    readonly peers: boolean;
  };
  readonly startedAt: string;
  readonly tookS: number;
  readonly peers: readonly { readonly name: string; readonly version: string; readonly configuration: string }[];
  readonly figures: readonly ResultFigure[];
  readonly skipped: readonly Skipped[];
  readonly summary: { readonly figures: number; readonly met: number; readonly notMet: number };
  /** What these figures do not say. */
  readonly limits: readonly string[];
};

export const limits: readonly string[] = [
  'one machine at one time: what else it did is in the samples',
  'sizes are what the kernel counts as written by the process, not what a flash chip writes',
  'peers differ in what they promise: the same durability is set, not the same guarantees',
];

/** How many figures keep their budget, and how many do not; the others have none. */
export function summarize(figures: readonly Figure[]): BenchResult['summary'] {
  return {
    figures: figures.length,
    met: figures.filter(({ isMet }) => isMet === true).length,
    notMet: figures.filter(({ isMet }) => isMet === false).length,
  };
}
