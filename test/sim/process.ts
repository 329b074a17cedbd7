// One simulated runtime process: the real runtime, protocols and store over the simulated machine and database. It can
// die at any moment; from then on nothing of it has any effect, and what it had in memory is gone.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../edge-evidence/random.ts';
import { baseEnvironment } from '../../src/core/execution.ts';
import type { Alarm, Ids } from '../../src/core/ports.ts';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import {
  createHandlerExecutor,
  type HandlerContext,
  type HandlerExecutor,
  type Handlers,
} from '../../src/executor/handlers.ts';
import type { Launch } from '../../src/protocol/attempt.ts';
import type { Operation } from '../../src/protocol/protocol.ts';
import type { ReadName, ReadRequest, Reads } from '../../src/protocol/reads.ts';
import { beginAttempt } from '../../src/runtime/begin-attempt.ts';
import { Runtime } from '../../src/runtime/runtime.ts';
import { createAppend } from '../../src/store/sqlite/append.ts';
import { Authority, type Connection } from '../../src/store/sqlite/authority.ts';
import { createDriver, type DriverParts } from '../../src/store/sqlite/driver.ts';
import { createLedger } from '../../src/store/sqlite/ledger.ts';
import { createReads } from '../../src/store/sqlite/reads.ts';
import type { Store } from '../../src/store/store.ts';
import type { Mortal, SimulatedDatabase } from './database.ts';
import { SimulatedExecutor } from './executor.ts';
import type { Loop } from './loop.ts';
import type { Behaviour, Machine } from './machine.ts';
import { drawBehaviour } from './packages.ts';
import type { SimulatedTime } from './time.ts';
import type { HandlerCall } from './truth.ts';
import type { Witness } from './witness.ts';

export type ProcessWorld = {
  readonly loop: Loop;
  readonly time: SimulatedTime;
  readonly ids: Ids;
  readonly database: SimulatedDatabase;
  readonly machine: Machine;
  readonly witness: Witness;
  readonly random: Random;
  readonly runDirectory: string;
  readonly trustedFromMs: number;
  readonly concurrencyMax: number;
  readonly handlerNames: () => readonly string[];
  readonly note: (line: string) => void;
  readonly count: (what: string) => void;
  /** This machine has nothing to spare: the runtime may hold back. */
  readonly shortage: () => void;
  /** How often a place for an attempt is still refused. */
  readonly room: { refusals: number };
  /** How often the taking of an attempt's output still takes a while. */
  readonly output: { delays: number };
};

const parts: DriverParts = {
  createReads: (db) => {
    const reads = createReads(db);
    return <N extends ReadName>({ name, args }: ReadRequest<N>) =>
      (reads[name] as (args: Reads[N]['args']) => Reads[N]['rows'])(args);
  },
  createAppend,
  createLedger,
};

export class SimulatedProcess implements Mortal {
  isDead = false;
  /** Its runtime has taken over, and starts what is ready. */
  isOpen = false;
  readonly drives: boolean;
  readonly runtime: Runtime;
  readonly store: Store;
  readonly pendingCount: () => number;
  readonly #world: ProcessWorld;
  readonly #alarm: Alarm;
  readonly #executor: SimulatedExecutor;
  readonly #handlers: HandlerExecutor;
  readonly #handlersRunning = new Set<string>();

  constructor(world: ProcessWorld, drives: boolean) {
    this.#world = world;
    this.drives = drives;
    layOutCommands(world);
    this.#alarm = alarmOf(world, this);
    const { store, pendingCount } = openStore(world, this);
    this.store = store;
    this.pendingCount = pendingCount;
    this.#executor = this.#createExecutor();
    this.#handlers = createHandlerExecutor({
      handlers: createHandlers(world, this, this.#alarm),
      onEnd: (attemptId, facts) => {
        this.#handlersRunning.delete(attemptId);
        this.runtime.attempts.ended(attemptId, facts);
      },
    });
    this.runtime = this.#createRuntime();
  }

  /** From now on nothing of it has any effect. */
  die(why: string): void {
    if (!this.isDead) {
      const { loop, time, machine, note } = this.#world;
      this.isDead = true;
      note(`the process dies ${why}`);
      loop.clear();
      time.drop(this);
      machine.watcher = null;
    }
  }

  /** Commands and handlers that hold a slot. */
  busy(): readonly string[] {
    return [...this.#executor.running(), ...this.#handlersRunning];
  }

  alarmsCount(): number {
    return this.#world.time.countOf(this);
  }

  #createExecutor(): SimulatedExecutor {
    const { machine, time, database, witness, note, count } = this.#world;
    return new SimulatedExecutor({
      machine,
      clock: time.clock,
      alarm: this.#alarm,
      pass: () => database.pass(this),
      drawBehaviour: (attemptId, argv) => this.#drawBehaviour(attemptId, argv),
      isFull: () => this.#isFull(),
      starting: (attemptId) => witness.starting(attemptId, this.busy()),
      adopted: () => count('command adopted'),
      onEnd: (attemptId, end) => {
        note(`end of ${attemptId}: ${end.kind}`);
        this.runtime.report(attemptId, end);
      },
    });
  }

  #drawBehaviour(attemptId: string, argv: readonly string[]): Behaviour {
    const { random, shortage, count } = this.#world;
    const behaviour = drawBehaviour(random.fork(attemptId), argv[1] ?? '');
    if (behaviour.spawnFailure === 'resources_exhausted') {
      shortage();
      count('shortage at a start');
    }
    return behaviour;
  }

  #isFull(): boolean {
    const { room, shortage, count } = this.#world;
    if (room.refusals === 0) {
      return false;
    }
    room.refusals -= 1;
    shortage();
    count('no place for an attempt');
    return true;
  }

  #createRuntime(): Runtime {
    const { time, concurrencyMax, trustedFromMs, runDirectory, note } = this.#world;
    return new Runtime({
      store: this.store,
      executor: this.#executor,
      handlers: this.#handlers,
      clock: time.clock,
      alarm: this.#alarm,
      concurrencyMax,
      trustedFromMs,
      runDirectory,
      drives: this.drives,
      begin: (launch) => this.#begin(launch),
      takeOutput: (_attemptId, end) => this.#takeOutput(end),
      onQuiet: null,
      onRunEnd: null,
      tidy: () => {},
      stopGraceMsMax: 4_000,
      log: (line) => note(`log: ${line}`),
    });
  }

  #begin(launch: Launch): void {
    const { database, witness, note } = this.#world;
    database.pass(this);
    note(`begin ${launch.attemptId} of ${launch.runId}, step ${launch.stepKey}`);
    if (launch.environment.kind === 'lacking') {
      witness.noteLacking(launch.attemptId);
    } else if (launch.executorType === 'handler') {
      witness.starting(launch.attemptId, this.busy());
      this.#handlersRunning.add(launch.attemptId);
    }
    beginAttempt(launch, {
      executor: this.#executor,
      handlers: this.#handlers,
      packagesDirectory: '/packages',
      guard: { check: () => null },
      isTooLate: () => false,
      base: baseEnvironment,
      onEnd: (attemptId, end) => this.runtime.report(attemptId, end),
    });
  }

  #takeOutput(end: AttemptEnd): Promise<AttemptEnd> {
    const { output, time } = this.#world;
    if (output.delays === 0) {
      return Promise.resolve(end);
    }
    output.delays -= 1;
    return new Promise((resolve) => this.#alarm.set(time.now().uptimeMs + 300, () => resolve(end)));
  }
}

/** Nobody wakes the dead. */
function alarmOf({ time }: ProcessWorld, life: Mortal): Alarm {
  const alarm = time.alarmOf(life);
  return { set: (atMs, ring) => (life.isDead ? () => {} : alarm.set(atMs, ring)) };
}

/** What the runtime's look at leftovers reads from the run directory itself. */
function layOutCommands({ machine, runDirectory }: ProcessWorld): void {
  const attempts = join(runDirectory, 'attempts');
  rmSync(attempts, { recursive: true, force: true });
  for (const { attemptId, runId, hasDirectory, launches } of machine.commands.values()) {
    if (hasDirectory && launches > 0) {
      mkdirSync(join(attempts, attemptId), { recursive: true });
      writeFileSync(join(attempts, attemptId, 'command'), `set -- 'env' '-i' 'QL_RUN_ID=${runId}' '/bin/true'\n`);
    }
  }
}

function openStore(world: ProcessWorld, life: Mortal) {
  const { database, time, ids, trustedFromMs, note, count } = world;
  const { clock } = time;
  const connect = (): Connection => {
    const db = database.connect(life);
    return { db, driver: createDriver({ db, parts, clock, trustedFromMs }) };
  };
  let pendingCount = 0;
  const authority = new Authority({
    connection: connect(),
    reconnect: (old) => {
      old.db.close();
      if (database.faults.reconnectFails) {
        database.faults.reconnectFails = false;
        count('database not had back');
        throw Object.assign(new Error('disk I/O error'), { errcode: 10, errstr: 'disk I/O error' });
      }
      return connect();
    },
    isLogFull: () => false,
    findLoss: () => null,
    disconnect: ({ db }) => db.close(),
    clock,
    alarm: alarmOf(world, life),
    ids,
    report: {
      failed: (operation, error) => note(`failed: ${operation?.name ?? 'turn'}: ${error}`),
      // As `serve` does: it stops, and whoever watches over it starts it again.
      closedForGood: () => life.die('because its database is gone'),
    },
  });
  const counted = <T>(ask: () => Promise<unknown>): Promise<T> => {
    pendingCount += 1;
    const settled = () => {
      pendingCount -= 1;
    };
    const answer = ask();
    answer.then(settled, settled);
    return answer as Promise<T>;
  };
  const store: Store = {
    info: {
      profile: 'standalone',
      durability: 'wal-full',
      engine: 'simulated',
      capability: { name: 'local-control-core', version: 42 },
    },
    attach: (hooks) => authority.attach(hooks),
    submit: <O>(operation: Operation<O>) => counted<O>(() => authority.submit(operation)),
    wake: () => authority.wake(),
    read: <N extends ReadName>(request: ReadRequest<N>) =>
      counted<Reads[N]['rows']>(() => authority.read(request as ReadRequest)),
    close: () => authority.close(),
  };
  return { store, pendingCount: () => pendingCount };
}

/** Functions of the embedder that end when their time has come; an abort ends most of them. */
function createHandlers(world: ProcessWorld, life: Mortal, alarm: Alarm): Handlers {
  const { time, witness, random, count } = world;
  const handle = ({ attemptId, runId, stepKey, signal }: HandlerContext) => {
    const draw = random.fork(attemptId);
    const call: HandlerCall = { state: 'called', process: life };
    witness.handlerCalled(attemptId, { runId, stepKey, call });
    return new Promise<void>((resolve, reject) => {
      const end = (isFailed: boolean) => {
        if (call.state === 'called' && !life.isDead) {
          call.state = isFailed ? 'threw' : 'returned';
          isFailed ? reject(new RangeError('so it is drawn')) : resolve();
        }
      };
      const isFailing = draw.chance(0.3);
      const ignoresAbort = draw.chance(0.2);
      signal.addEventListener('abort', () => {
        count('handler aborted');
        if (!ignoresAbort) {
          end(true);
        }
      });
      const runMs = draw.pick([0, 20, 2_000, draw.between(0, 60_000)]);
      alarm.set(time.now().uptimeMs + runMs, () => end(isFailing));
    });
  };
  return Object.fromEntries(world.handlerNames().map((name) => [name, handle]));
}
