// The state machines, one table each. A pair that is absent is illegal; nothing else in the product lists states.
//
//   run       running → succeeded | failed | cancelled | timed_out
//   step run  pending → ready → running → an end, with lost on the way where nobody can say what happened
//   attempt   claimed → starting (the start barrier) → running (an observation, fences nothing) → an end

export const runTransitions = {
  running: ['succeeded', 'failed', 'cancelled', 'timed_out'],
  succeeded: [],
  failed: [],
  cancelled: [],
  timed_out: [],
} as const satisfies Record<string, readonly string[]>;

export const stepTransitions = {
  pending: ['ready', 'skipped', 'cancelled'],
  // ready → ready is a new epoch: an attempt that certainly never started is given up.
  ready: ['ready', 'running', 'failed', 'skipped', 'cancelled', 'timed_out', 'waiting_approval'],
  waiting_approval: ['ready', 'running', 'cancelled', 'timed_out'],
  // running → ready is an automatic retry.
  running: ['succeeded', 'failed', 'cancelled', 'timed_out', 'lost', 'ready'],
  lost: ['ready', 'failed', 'cancelled'],
  succeeded: [],
  failed: [],
  skipped: [],
  cancelled: [],
  timed_out: [],
} as const satisfies Record<string, readonly string[]>;

export const attemptTransitions = {
  claimed: ['starting', 'cancelled', 'timed_out', 'lost'],
  starting: ['running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'lost'],
  running: ['succeeded', 'failed', 'cancelled', 'timed_out', 'lost'],
  succeeded: [],
  failed: [],
  cancelled: [],
  timed_out: [],
  lost: [],
} as const satisfies Record<string, readonly string[]>;

export const lifecycleTransitions = {
  active: ['disabled', 'uninstalled'],
  disabled: ['active', 'uninstalled'],
  uninstalled: [],
} as const satisfies Record<string, readonly string[]>;

export const installationTransitions = {
  staged: ['active', 'failed'],
  active: ['superseded', 'removed'],
  superseded: ['removed'],
  failed: ['removed'],
  removed: [],
} as const satisfies Record<string, readonly string[]>;

export type RunStatus = keyof typeof runTransitions;
export type StepStatus = keyof typeof stepTransitions;
export type AttemptStatus = keyof typeof attemptTransitions;
export type LifecycleState = keyof typeof lifecycleTransitions;
export type InstallationState = keyof typeof installationTransitions;

type Machine = Record<string, readonly string[]>;

/** Whether a machine has the transition; false for states that it does not know. */
export function hasTransition(machine: Machine, from: string, to: string): boolean {
  return Object.hasOwn(machine, from) && machine[from]!.includes(to);
}

/** Whether nothing leaves this state. `lost` is no end of a step: it still becomes ready, failed or cancelled. */
export function isTerminal(machine: Machine, status: string): boolean {
  return Object.hasOwn(machine, status) && machine[status]!.length === 0;
}

export const isTerminalRun = (status: RunStatus): boolean => isTerminal(runTransitions, status);
export const isTerminalStep = (status: StepStatus): boolean => isTerminal(stepTransitions, status);
export const isTerminalAttempt = (status: AttemptStatus): boolean => isTerminal(attemptTransitions, status);

export const cancelReasons = ['user', 'policy', 'shutdown', 'reconcile', 'timeout'] as const;
export type CancelReason = (typeof cancelReasons)[number];

/** Why the runtime itself asked a command to stop, before it ended. */
export const stopReasons = ['timeout', 'shutdown'] as const;
export type StopReason = (typeof stopReasons)[number];

/** The set is closed now; the executor accepts `task`. */
export const stepKinds = ['task', 'tool', 'model', 'agent', 'condition', 'approval', 'subworkflow'] as const;
export type StepKind = (typeof stepKinds)[number];

export const executorTypes = ['process', 'handler'] as const;
export type ExecutorType = (typeof executorTypes)[number];
