// The package that runs while its runtime is killed: chains, fans, failures, retries, timeouts, steps that outlive the
// runtime, runs that are cancelled. Each step says how it may end when nobody cancels its run.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Site } from './site.ts';
import { traceFileOf, workScript } from './trace.ts';

export const packageName = 'mixed';

export type MixedStep = {
  readonly needs?: readonly string[];
  readonly seconds?: number;
  readonly status?: number;
  /** Tries that fail before one has that status. */
  readonly failures?: number;
  readonly isStubborn?: boolean;
  readonly task?: Readonly<Record<string, unknown>>;
  /** Status and number of commands, one of these. */
  readonly ends: readonly (readonly [status: string, commands: number])[];
};

const succeeds: MixedStep['ends'] = [['succeeded', 1]];
const isSkipped: MixedStep['ends'] = [['skipped', 0]];
const timesOut: MixedStep['ends'] = [['timed_out', 1]];

const good = (seconds: number, ...needs: readonly string[]): MixedStep => ({ needs, seconds, ends: succeeds });

export const mixedWorkflows: Readonly<Record<string, Readonly<Record<string, MixedStep>>>> = {
  chain: { a: good(0.02), b: good(0.1, 'a'), c: good(0, 'b'), d: good(0.05, 'c') },
  fan: {
    root: good(0),
    'part-1': good(0.1, 'root'),
    'part-2': good(0.02, 'root'),
    'part-3': good(0.05, 'root'),
    join: good(0, 'part-1', 'part-2', 'part-3'),
  },
  failing: {
    a: good(0.02),
    b: { needs: ['a'], seconds: 0.05, status: 3, ends: [['failed', 1]] },
    c: { needs: ['b'], ends: isSkipped },
    d: good(0.02, 'a'),
  },
  retried: {
    a: { seconds: 0.02, failures: 2, task: { retry: { limit: 2, backoff: '30ms' } }, ends: [['succeeded', 3]] },
    b: good(0, 'a'),
  },
  exhausted: {
    a: { seconds: 0.05, status: 5, task: { retry: { limit: 1, backoff: '50ms' } }, ends: [['failed', 2]] },
    b: { needs: ['a'], ends: isSkipped },
  },
  timed: {
    a: { seconds: 60, task: { timeout: '300ms', grace: '150ms' }, ends: timesOut },
    b: { needs: ['a'], ends: isSkipped },
    c: { seconds: 60, isStubborn: true, task: { timeout: '200ms', grace: '100ms' }, ends: timesOut },
  },
  racing: {
    a: { seconds: 0.25, task: { timeout: '300ms', grace: '100ms' }, ends: [...succeeds, ...timesOut] },
    b: { needs: ['a'], ends: [...succeeds, ...isSkipped] },
  },
  long: { a: good(1.2), b: good(0.7, 'a') },
  cancelled: { a: good(0.3), b: good(0.3, 'a'), c: good(0.2, 'b') },
};

/** Retries of a step after its first command. */
export function retryLimitOf({ task }: MixedStep): number {
  return (task?.['retry'] as { readonly limit: number } | undefined)?.limit ?? 0;
}

export function writeMixedPackage(site: Site): string {
  const tasks: Record<string, unknown> = {};
  const workflows: Record<string, unknown> = {};
  for (const [workflowId, steps] of Object.entries(mixedWorkflows)) {
    const places: Record<string, unknown> = {};
    for (const [key, step] of Object.entries(steps)) {
      const { seconds = 0, status = 0, failures = 0, needs = [], task = {}, isStubborn = false } = step;
      const env = { TRACE: traceFileOf(site), ...(isStubborn ? { STUBBORN: 'yes' } : {}) };
      const run = ['./scripts/work.sh', `${seconds}`, `${status}`, `${failures}`];
      tasks[`${workflowId}-${key}`] = { run, env, ...task };
      places[key] = { task: `${workflowId}-${key}`, needs };
    }
    workflows[workflowId] = { steps: places };
  }
  const manifest = { schema: 'qinglong/package@v1', name: packageName, version: '1.0.0', tasks, workflows };
  const directory = join(site.root, 'package');
  mkdirSync(join(directory, 'scripts'), { recursive: true });
  writeFileSync(join(directory, 'qinglong.json'), JSON.stringify(manifest));
  writeFileSync(join(directory, 'scripts/work.sh'), workScript, { mode: 0o755 });
  return directory;
}
