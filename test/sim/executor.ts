// The executor of one simulated runtime process: the contract of src/executor/executor.ts over the simulated machine.
// What it knows dies with its process; the machine goes on.
import { EdgeError } from '../../src/core/errors.ts';
import type { Alarm, CancelAlarm, Clock } from '../../src/core/ports.ts';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import type { Executor } from '../../src/executor/executor.ts';
import type { CommandSpec } from '../../src/executor/preparation.ts';
import { type Behaviour, endOf, type Machine } from './machine.ts';

export type ExecutorWorld = {
  readonly machine: Machine;
  readonly clock: Clock;
  readonly alarm: Alarm;
  /** Dies here if it is time to. */
  readonly pass: () => void;
  readonly drawBehaviour: (attemptId: string, argv: readonly string[]) => Behaviour;
  /** Whether the run directory has no room at this moment. */
  readonly isFull: () => boolean;
  /** A start was asked for; before it has any effect. */
  readonly starting: (attemptId: string) => void;
  readonly adopted: () => void;
  readonly onEnd: (attemptId: string, end: AttemptEnd) => void;
};

type Watched = { killAtMs: number | null; cancelKill: CancelAlarm | null; cancelEnd: CancelAlarm | null };

export class SimulatedExecutor implements Executor {
  readonly #world: ExecutorWorld;
  readonly #watches = new Map<string, Watched>();
  #isClosed = false;

  constructor(world: ExecutorWorld) {
    this.#world = world;
    world.machine.watcher = (attemptId) => this.#look(attemptId);
  }

  prepare(attemptId: string): void {
    const { pass, isFull, machine } = this.#world;
    pass();
    if (isFull()) {
      throw new EdgeError('full', 'the run directory is full', { hint: 'free some space there' });
    }
    machine.makeDirectory(attemptId);
  }

  start({ attemptId, argv, env }: CommandSpec): void {
    const { pass, starting, drawBehaviour, machine } = this.#world;
    pass();
    starting(attemptId);
    this.#watch(attemptId);
    const behaviour = drawBehaviour(attemptId, argv);
    const about = { runId: env['QL_RUN_ID'] ?? '', stepKey: env['QL_STEP_KEY'] ?? '', behaviour };
    if (behaviour.spawnFailure === null) {
      machine.launch(attemptId, about);
      return;
    }
    const end = { kind: 'spawn-failed', errorCode: behaviour.spawnFailure, errorSummary: 'so it is drawn' } as const;
    Object.assign(machine.commands.get(attemptId)!, { ...about, stage: 'unspawned', spawnFailure: end });
    this.#settle(attemptId, end);
  }

  withdraw(attemptId: string): 'withdrawn' | 'taken' | 'absent' {
    this.#world.pass();
    const outcome = this.#world.machine.withdraw(attemptId);
    if (outcome === 'withdrawn') {
      this.#settle(attemptId, { kind: 'withdrawn' });
    }
    return outcome;
  }

  stop(attemptId: string, { graceMs }: { readonly graceMs: number }): void {
    const { pass, machine, clock, alarm } = this.#world;
    pass();
    const watched = this.#watches.get(attemptId);
    if (watched === undefined || this.withdraw(attemptId) === 'withdrawn') {
      return;
    }
    const killAtMs = clock.observe().uptimeMs + graceMs;
    if (watched.killAtMs === null || killAtMs < watched.killAtMs) {
      watched.killAtMs = killAtMs;
      watched.cancelKill?.();
      watched.cancelKill = alarm.set(killAtMs, () => machine.kill(attemptId));
    }
    machine.term(attemptId);
    this.#look(attemptId);
  }

  inspect(attemptId: string, startBootId: string) {
    this.#world.pass();
    return this.#world.machine.inspect(attemptId, startBootId);
  }

  adopt(attemptId: string): void {
    this.#world.pass();
    this.#world.adopted();
    this.#watch(attemptId);
    this.#look(attemptId);
  }

  hasEnded(attemptId: string): boolean {
    return this.#world.machine.commands.get(attemptId)?.receipt != null;
  }

  openOutput(): never {
    throw new RangeError('simulated commands write nothing');
  }

  release(attemptId: string): void {
    this.#world.pass();
    if (this.#watches.has(attemptId)) {
      throw new RangeError(`attempt ${attemptId} is released while it is watched`);
    }
    this.#world.machine.removeDirectory(attemptId);
  }

  /** Commands that are watched: as many slots are taken. */
  running(): string[] {
    return [...this.#watches.keys()];
  }

  stored(): string[] {
    return [...this.#world.machine.commands.values()]
      .filter(({ hasDirectory }) => hasDirectory)
      .map(({ attemptId }) => attemptId);
  }

  close(): void {
    this.#isClosed = true;
    this.#world.machine.watcher = null;
    for (const { cancelKill, cancelEnd } of this.#watches.values()) {
      cancelKill?.();
      cancelEnd?.();
    }
    this.#watches.clear();
  }

  #watch(attemptId: string): void {
    if (this.#watches.has(attemptId)) {
      throw new RangeError(`attempt ${attemptId} is watched twice`);
    }
    this.#watches.set(attemptId, { killAtMs: null, cancelKill: null, cancelEnd: null });
  }

  /** Ends what is over, when its output is there too. */
  #look(attemptId: string): void {
    const { machine, alarm, clock } = this.#world;
    const watched = this.#watches.get(attemptId);
    const command = machine.commands.get(attemptId);
    if (watched === undefined || command === undefined) {
      return;
    }
    if (command.stage === 'empty' && command.launches > 0) {
      // A launcher that died before its command: nobody will ever take the start.
      machine.withdraw(attemptId);
      this.#settle(attemptId, { kind: 'withdrawn' });
    } else if (!['empty', 'launched', 'taken'].includes(command.stage)) {
      const drainMs = watched.killAtMs === null ? (command.behaviour?.drainMs ?? 0) : 0;
      watched.cancelEnd?.();
      watched.cancelEnd = alarm.set(clock.observe().uptimeMs + drainMs, () => this.#settle(attemptId, endOf(command)));
    }
  }

  #settle(attemptId: string, end: AttemptEnd): void {
    const watched = this.#watches.get(attemptId);
    if (watched === undefined) {
      return;
    }
    watched.cancelKill?.();
    watched.cancelEnd?.();
    this.#watches.delete(attemptId);
    queueMicrotask(() => {
      if (!this.#isClosed) {
        this.#world.onEnd(attemptId, end);
      }
    });
  }
}
