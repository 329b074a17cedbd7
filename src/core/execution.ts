// What an attempt will run: its environment, and the digest that binds an attempt to exactly this.
import { digest, digestLabels } from './digest.ts';
import { environmentToDigest, type PackageSetting } from './package-setting.ts';
import type { MaterializedTask } from './revision.ts';

// Of a task that this device has set nothing for, the digest is the same at every claim and every start. Tasks are
// parts of revisions, which never change.
const unsetDigests = new WeakMap<MaterializedTask, { readonly lockDigest: string; readonly executionDigest: string }>();

/**
 * Covers everything that decides what runs: arguments, environment with this device's settings in it, directory, user,
 * limits, and the package's bytes.
 */
export function executionDigestOf(options: {
  readonly task: MaterializedTask;
  readonly settings: readonly PackageSetting[];
  readonly lockDigest: string;
}): string {
  const { task, settings, lockDigest } = options;
  const known = settings.length === 0 ? unsetDigests.get(task) : undefined;
  if (known?.lockDigest === lockDigest) {
    return known.executionDigest;
  }
  const { argv, cwd, timeoutMs, graceMs, user, nice, limits } = task;
  const env = environmentToDigest(task.env, settings);
  const contents = { argv, env, cwd, timeoutMs, graceMs, user, nice, limits, lockDigest };
  const executionDigest = digest(digestLabels.execution, contents);
  if (settings.length === 0) {
    unsetDigests.set(task, { lockDigest, executionDigest });
  }
  return executionDigest;
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
  readonly variables: Readonly<Record<string, string>>;
  readonly runId: string;
  readonly attemptId: string;
  readonly stepKey: string;
  readonly attemptNumber: number;
  readonly packageDirectory: string;
}): Readonly<Record<string, string>> {
  return {
    ...options.base,
    ...options.variables,
    QL_RUN_ID: options.runId,
    QL_ATTEMPT_ID: options.attemptId,
    QL_STEP_KEY: options.stepKey,
    QL_ATTEMPT_NUMBER: `${options.attemptNumber}`,
    QL_PACKAGE_DIR: options.packageDirectory,
  };
}
