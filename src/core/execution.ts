// What an attempt will run: its environment, and the digest that binds an attempt to exactly this.
import { digest, digestLabels } from './digest.ts';
import type { MaterializedTask } from './revision.ts';

/** Covers everything that decides what runs: arguments, environment, directory, limits, and the package's bytes. */
export function executionDigestOf(task: MaterializedTask, lockDigest: string): string {
  const { argv, env, cwd, timeoutMs, graceMs, nice, limits } = task;
  return digest(digestLabels.execution, { argv, env, cwd, timeoutMs, graceMs, nice, limits, lockDigest });
}

/** The few variables that a command inherits, with their values where the machine has none. */
export const baseEnvironment = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/',
  TZ: 'UTC',
  LANG: 'C.UTF-8',
} as const;

/**
 * The exact environment of a command: the base, what the task sets, and the five variables that say who is running.
 * The task may override the base, never the five.
 */
export function environmentOf(options: {
  readonly base: Readonly<Record<string, string>>;
  readonly task: MaterializedTask;
  readonly runId: string;
  readonly attemptId: string;
  readonly stepKey: string;
  readonly attemptNumber: number;
  readonly packageDirectory: string;
}): Readonly<Record<string, string>> {
  return {
    ...options.base,
    ...options.task.env,
    QL_RUN_ID: options.runId,
    QL_ATTEMPT_ID: options.attemptId,
    QL_STEP_KEY: options.stepKey,
    QL_ATTEMPT_NUMBER: `${options.attemptNumber}`,
    QL_PACKAGE_DIR: options.packageDirectory,
  };
}
