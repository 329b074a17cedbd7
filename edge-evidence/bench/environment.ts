// The machine that figures were taken on, as far as it explains them.
import { loadavg } from 'node:os';
import { type Environment, readEnvironment } from '../environment.ts';
import { hasStrace } from './programs.ts';

export type BenchEnvironment = Environment & {
  /** The scratch is in memory: then nothing here says what a disk costs. */
  readonly isMemory: boolean;
  readonly isRoot: boolean;
  readonly hasStrace: boolean;
  /** Of one minute, before the first figure: what others did meanwhile is in the figures. */
  readonly loadBefore: number;
};

/** The machine, and the file system of the scratch. */
export function readBenchEnvironment(scratch: string): BenchEnvironment {
  const environment = readEnvironment(scratch);
  return {
    ...environment,
    isMemory: ['tmpfs', 'ramfs'].includes(environment.fileSystem.type),
    isRoot: process.geteuid?.() === 0,
    hasStrace: hasStrace(),
    loadBefore: Math.round((loadavg()[0] ?? 0) * 100) / 100,
  };
}
