// From a launch whose barrier is durable to a command or a handler that runs: what exactly it is given. Owns the
// environment of a command, and the end of an attempt that lacks a setting, which is an end like any other.
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { baseEnvironment, environmentOf } from '../core/execution.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import type { Executor } from '../executor/executor.ts';
import type { HandlerExecutor } from '../executor/handlers.ts';
import { type SpawnFailure, spawnFailed } from '../executor/preflight.ts';
import type { Launch } from '../protocol/attempt.ts';
import type { PackageGuard } from './package-guard.ts';
import { environmentVariable } from './ports.ts';

export type BeginPorts = {
  readonly executor: Pick<Executor, 'start'>;
  readonly handlers: Pick<HandlerExecutor, 'start'>;
  readonly packagesDirectory: string;
  /** Asked before a command of a package starts. */
  readonly guard: Pick<PackageGuard, 'check'>;
  /** Whether the lease is over under which it was claimed; what a launcher asks for itself. */
  readonly isTooLate: () => boolean;
  /** See `machineEnvironment`. */
  readonly base: Readonly<Record<string, string>>;
  /** Takes the end of an attempt that could not begin; never called from within the call. */
  readonly onEnd: (attemptId: string, end: AttemptEnd) => void;
};

/** Never throws for what a package or this device lacks: that is the attempt's own end. */
export function beginAttempt(launch: Launch, ports: BeginPorts): void {
  const { attemptId, runId, stepKey, tryNumber, task, packageName, taskId, environment } = launch;
  if (environment.kind === 'lacking') {
    const failure = describeLack(packageName, environment.settingNames);
    queueMicrotask(() => ports.onEnd(attemptId, failure));
    return;
  }
  const { variables } = environment;
  if (launch.executorType === 'handler') {
    if (ports.isTooLate()) {
      queueMicrotask(() => ports.onEnd(attemptId, { kind: 'withdrawn' }));
      return;
    }
    const env = variables;
    ports.handlers.start({ runId, attemptId, attemptNumber: tryNumber, stepKey, packageName, taskId, env });
    return;
  }
  const altered = ports.guard.check(launch.lockDigest);
  if (altered !== null) {
    const failure = describeAltered(packageName, altered);
    queueMicrotask(() => ports.onEnd(attemptId, failure));
    return;
  }
  const packageDirectory = join(ports.packagesDirectory, launch.lockDigest);
  // Another user's HOME is for the executor to find out: it is none of this process's.
  const { HOME: _own, ...common } = ports.base;
  ports.executor.start({
    attemptId,
    argv: task.argv,
    env: environmentOf({
      base: task.user === null ? ports.base : common,
      variables,
      runId,
      attemptId,
      stepKey,
      attemptNumber: tryNumber,
      packageDirectory,
    }),
    cwd: join(packageDirectory, task.cwd),
    user: task.user,
    nice: task.nice === 0 ? null : task.nice,
    limits: task.limits,
  });
}

function describeAltered(packageName: string, altered: string): SpawnFailure {
  const remedy = `see \`package verify ${packageName}\`, and install it again`;
  return spawnFailed('package_altered', `its files are not those that were installed: ${altered}; ${remedy}`);
}

// As many as a person sets one by one; `settings list` knows all.
const toldNamesMax = 8;

function describeLack(packageName: string, names: readonly string[]): SpawnFailure {
  const [only] = names;
  if (names.length === 1) {
    const remedy = `\`settings set ${packageName} ${only} VALUE\``;
    return spawnFailed(
      'setting_missing',
      `setting ${only} has neither a value on this device nor a default: ${remedy}`,
    );
  }
  const more = names.length > toldNamesMax ? ` and ${names.length - toldNamesMax} more` : '';
  const told = `${names.slice(0, toldNamesMax).join(', ')}${more}`;
  const remedy = `\`settings set ${packageName} NAME VALUE\`, each`;
  return spawnFailed(
    'setting_missing',
    `settings ${told} have neither a value on this device nor a default: ${remedy}`,
  );
}

/**
 * The fixed small base of every command's environment: facts of this machine, nothing of this process's own. Asked
 * once: an attempt must not depend on a file that can be opened at that moment.
 */
export function machineEnvironment(): Readonly<Record<string, string>> {
  const zone = environmentVariable('TZ');
  const { TZ: _unset, ...base } = baseEnvironment;
  return { ...base, HOME: ownHome() ?? base.HOME, ...(zone === null ? {} : { TZ: zone }) };
}

/** A user without an entry, as containers have them, has no home. */
function ownHome(): string | null {
  try {
    return userInfo().homedir || null;
  } catch {
    return null;
  }
}
