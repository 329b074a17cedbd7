// The simulated machine: commands and the directories of their attempts, which outlive the runtime, and end by
// themselves, by a signal, or with the boot. What really happened to a command is known here, and the model judges by
// it. Knows no workflow.
import type { Alarm } from '../../src/core/ports.ts';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import type { AttemptEvidence } from '../../src/executor/evidence.ts';
import type { SimulatedTime } from './time.ts';

/** What a command does, drawn when its launcher is started. Times in ms. */
export type Behaviour = {
  /** The look before the launch finds that it cannot be started, or that the machine has nothing to spare. */
  readonly spawnFailure: 'command_missing' | 'resources_exhausted' | null;
  /** Until the command takes its start. */
  readonly takeMs: number;
  /** Null: for ever, unless it is stopped. */
  readonly runMs: number | null;
  readonly exitCode: number;
  readonly signal: string | null;
  readonly onTerm: 'dies' | 'exits' | 'ignores';
  readonly termMs: number;
  /** Its whole session is killed by somebody so long after its start: there is no receipt. */
  readonly killedAfterMs: number | null;
  /** From its receipt to the end of its output. */
  readonly drainMs: number;
  /** The KILL of a stop leaves no receipt either. */
  readonly isKilledWhole: boolean;
};

export type Receipt = {
  readonly exitCode: number;
  readonly signal: string | null;
  readonly isForced: boolean;
  readonly startedAtMs: number;
  readonly finishedAtMs: number;
  readonly durationMs: number;
  readonly endUptimeMs: number;
};

/** `empty`: prepared; `launched`: no command has taken the start; `withdrawn`: none ever will; `dead`: no receipt. */
export type Stage = 'empty' | 'launched' | 'taken' | 'ended' | 'withdrawn' | 'dead' | 'unspawned';

export type Command = {
  readonly attemptId: string;
  readonly runId: string;
  readonly stepKey: string;
  stage: Stage;
  hasDirectory: boolean;
  behaviour: Behaviour | null;
  takenAtUptimeMs: number;
  takenAtMs: number;
  receipt: Receipt | null;
  /** How often a launcher was started, and how often a command took a start. */
  launches: number;
  takes: number;
  /** Somebody asked for its end while it ran. */
  wasStopped: boolean;
  /** Until then /proc and the directory do not tell whether it lives. */
  undecidableUntilMs: number;
  /** Its directory vanished before anybody was told of its end. */
  lostDirectory: boolean;
  spawnFailure: AttemptEnd | null;
};

export type Launched = { readonly runId: string; readonly stepKey: string; readonly behaviour: Behaviour };

export type MachineWatch = {
  /** A command has begun to run. */
  readonly taken: (command: Command) => void;
};

export class Machine {
  readonly commands = new Map<string, Command>();
  /** Whoever watches commands at the moment is told of each that changed. */
  watcher: ((attemptId: string) => void) | null = null;
  readonly #time: SimulatedTime;
  readonly #watch: MachineWatch;
  readonly #alarm: Alarm;

  constructor(time: SimulatedTime, watch: MachineWatch) {
    this.#time = time;
    this.#watch = watch;
    this.#alarm = time.alarmOf(this);
  }

  makeDirectory(attemptId: string): void {
    const known = this.commands.get(attemptId);
    if (known !== undefined && known.stage !== 'empty') {
      throw new RangeError(`the directory of ${attemptId} is there and not empty`);
    }
    if (known?.hasDirectory !== true) {
      this.commands.set(attemptId, emptyCommand(attemptId));
    }
  }

  launch(attemptId: string, launched: Launched): void {
    const command = Object.assign(this.#find(attemptId), launched);
    command.launches += 1;
    command.stage = 'launched';
    this.#after(launched.behaviour.takeMs, () => this.#take(command, launched.behaviour));
  }

  withdraw(attemptId: string): 'withdrawn' | 'taken' | 'absent' {
    const command = this.commands.get(attemptId);
    if (command === undefined || !command.hasDirectory) {
      return 'absent';
    }
    if (['empty', 'launched', 'unspawned', 'withdrawn'].includes(command.stage)) {
      command.stage = 'withdrawn';
      return 'withdrawn';
    }
    return 'taken';
  }

  term(attemptId: string): void {
    const command = this.#find(attemptId);
    const { behaviour } = command;
    command.wasStopped ||= command.stage === 'taken';
    if (command.stage !== 'taken' || behaviour === null || behaviour.onTerm === 'ignores') {
      return;
    }
    const isExit = behaviour.onTerm === 'exits';
    const how = { exitCode: isExit ? 0 : 143, signal: isExit ? null : 'SIGTERM', isForced: false };
    this.#after(behaviour.termMs, () => this.#end(command, how));
  }

  kill(attemptId: string): void {
    const command = this.#find(attemptId);
    if (command.behaviour?.isKilledWhole === true) {
      this.killSession(attemptId);
    } else {
      this.#end(command, { exitCode: 137, signal: 'SIGKILL', isForced: true });
    }
  }

  /** A stranger kills the whole session. */
  killSession(attemptId: string): void {
    const command = this.#find(attemptId);
    if (command.stage === 'taken' || command.stage === 'launched') {
      // A launcher that dies before its command took the start leaves the start free.
      command.stage = command.stage === 'taken' ? 'dead' : 'empty';
      this.watcher?.(attemptId);
    }
  }

  removeDirectory(attemptId: string): void {
    const command = this.commands.get(attemptId);
    if (command !== undefined) {
      command.hasDirectory = false;
    }
  }

  inspect(attemptId: string, startBootId: string): AttemptEvidence {
    return inspect(this.commands.get(attemptId), this.#time.now(), startBootId);
  }

  /** Everything that ran is gone; directories are, where they are in memory. */
  reboot({ isVolatile }: { readonly isVolatile: boolean }): void {
    for (const command of this.commands.values()) {
      command.stage = command.stage === 'taken' ? 'dead' : command.stage;
      command.stage = command.stage === 'launched' ? 'empty' : command.stage;
      command.lostDirectory ||= isVolatile && command.hasDirectory;
      command.hasDirectory &&= !isVolatile;
    }
  }

  #after(delayMs: number, ring: () => void): void {
    this.#alarm.set(this.#time.now().uptimeMs + delayMs, ring);
  }

  #find(attemptId: string): Command {
    const known = this.commands.get(attemptId);
    if (known === undefined) {
      throw new RangeError(`no command ${attemptId}`);
    }
    return known;
  }

  #take(command: Command, { killedAfterMs, runMs, exitCode, signal }: Behaviour): void {
    if (command.stage !== 'launched') {
      return;
    }
    const { uptimeMs, wallMs } = this.#time.now();
    command.stage = 'taken';
    command.takes += 1;
    command.takenAtUptimeMs = uptimeMs;
    command.takenAtMs = wallMs;
    this.#watch.taken(command);
    if (killedAfterMs !== null) {
      this.#after(killedAfterMs, () => this.killSession(command.attemptId));
    }
    if (runMs !== null) {
      this.#after(runMs, () => this.#end(command, { exitCode, signal, isForced: false }));
    }
  }

  #end(command: Command, how: Pick<Receipt, 'exitCode' | 'signal' | 'isForced'>): void {
    if (command.stage !== 'taken') {
      return;
    }
    const { uptimeMs: endUptimeMs, wallMs: finishedAtMs } = this.#time.now();
    const { takenAtMs: startedAtMs, takenAtUptimeMs } = command;
    const durationMs = endUptimeMs - takenAtUptimeMs;
    command.stage = 'ended';
    command.receipt = { ...how, startedAtMs, finishedAtMs, durationMs, endUptimeMs };
    this.watcher?.(command.attemptId);
  }
}

function emptyCommand(attemptId: string): Command {
  return {
    attemptId,
    runId: '',
    stepKey: '',
    stage: 'empty',
    hasDirectory: true,
    behaviour: null,
    takenAtUptimeMs: 0,
    takenAtMs: 0,
    receipt: null,
    launches: 0,
    takes: 0,
    wasStopped: false,
    undecidableUntilMs: 0,
    lostDirectory: false,
    spawnFailure: null,
  };
}

/** As the real evidence is judged: first what is written, then the boot, then who lives. */
function inspect(
  command: Command | undefined,
  now: { readonly uptimeMs: number; readonly bootId: string },
  startBootId: string,
): AttemptEvidence {
  if (command === undefined || !command.hasDirectory) {
    return { kind: 'absent' };
  }
  if (command.stage === 'withdrawn') {
    return { kind: 'withdrawn' };
  }
  if (command.receipt !== null) {
    return { kind: 'ended', end: endOf(command) };
  }
  if (startBootId !== now.bootId) {
    return { kind: 'ended', end: lost('the system was restarted while it ran') };
  }
  if (command.stage !== 'taken' && command.stage !== 'dead') {
    return { kind: 'free' };
  }
  if (now.uptimeMs < command.undecidableUntilMs) {
    return { kind: 'undecidable', why: 'its identity cannot be read' };
  }
  return command.stage === 'taken' ? { kind: 'running' } : { kind: 'ended', end: endOf(command) };
}

function lost(errorSummary: string): AttemptEnd {
  return { kind: 'lost', isForced: false, errorSummary };
}

/** The end of a command that is over. */
export function endOf({ receipt, stage, spawnFailure }: Command): AttemptEnd {
  if (stage === 'withdrawn') {
    return { kind: 'withdrawn' };
  }
  if (spawnFailure !== null) {
    return spawnFailure;
  }
  if (receipt === null) {
    return lost('its launcher ended without a receipt');
  }
  const output = { outputBytes: 0, outputTruncated: false, leftoversCount: 0, isPerhapsSignal: false, note: null };
  return { kind: 'exited', ...receipt, ...output };
}
