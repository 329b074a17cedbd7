// A runtime over a real store whose time moves only when the test says so. Its commands are handlers that end when the
// test says so, or real processes. Not a test itself.
import type { Test } from 'tap';
import { EdgeError } from '../../src/core/errors.ts';
import type { Alarm, Clock } from '../../src/core/ports.ts';
import type { Executor } from '../../src/executor/executor.ts';
import { createExecutor } from '../../src/executor/executor.ts';
import { createHandlerExecutor, type HandlerContext, type Handlers } from '../../src/executor/handlers.ts';
import type { Launch } from '../../src/protocol/attempt.ts';
import { realAlarm, realClock, realIds } from '../../src/runtime/ports.ts';
import { Runtime } from '../../src/runtime/runtime.ts';
import { openSqliteStore } from '../../src/sqlite.ts';
import type { Store } from '../../src/store/store.ts';
import { type SimulatedTime, simulateTime } from '../executor/stand.ts';
import type { Scene } from './scene.ts';

/** A handler that is running. */
export type Call = Omit<HandlerContext, 'signal'> & {
  readonly signal: AbortSignal;
  /** Ends it: as a success, or with what it throws. */
  end(error?: Error): void;
};

export type Simulated = {
  readonly runtime: Runtime;
  readonly store: Store;
  readonly time: SimulatedTime;
  /** Calls of handlers in their order, the ended ones too. */
  readonly calls: readonly Call[];
  readonly lines: string[];
  /** Resolves when so many calls have been made in all. */
  called(count: number): Promise<void>;
  /** Everything that was submitted before is carried out. */
  settled(): Promise<void>;
};

export type SimulatedOptions = {
  readonly concurrencyMax?: number;
  /** Names of handlers, `scene/TASK`. */
  readonly handlers?: readonly string[];
  readonly time?: SimulatedTime;
  /** Changes what the executor does. */
  readonly executor?: (executor: Executor) => Partial<Executor>;
  readonly begin?: (launch: Launch, runtime: Runtime) => void;
  /** Whether the outcome of a turn that was committed just now is unknown to whoever keeps state in memory. */
  readonly isDoubtful?: () => boolean;
};

export async function openSimulated(t: Test, scene: Scene, options: SimulatedOptions = {}): Promise<Simulated> {
  const { time = simulateTime() } = options;
  const clock = withWallClock(time.clock);
  const lines: string[] = [];
  const { calls, called, handlers } = createCalls(options.handlers ?? ['scene/work']);
  const sqlite = openStore(scene, clock, lines);
  const store = options.isDoubtful === undefined ? sqlite : withDoubts(sqlite, options.isDoubtful);
  const runtime = assemble(scene, { ...options, clock, alarm: time.alarm, store, handlers, lines });
  await runtime.open();
  t.teardown(() => runtime.close('detach').catch(() => {}));
  const settled = async () => {
    // A turn is taken between two turns of the event loop, and what follows it in the next.
    for (let turns = 0; turns < 3; turns += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      await store.read({ name: 'allSetAside', args: { limit: 1 } });
    }
  };
  return { runtime, store, time, calls, lines, called, settled };
}

/** The wall clock goes along: what begins later is later. */
function withWallClock(clock: Clock): Clock {
  const start = clock.observe();
  return {
    observe() {
      const now = clock.observe();
      return { ...now, wallMs: now.wallMs + now.uptimeMs - start.uptimeMs };
    },
  };
}

/** Handlers that end when the test says so. */
function createCalls(names: readonly string[]) {
  const calls: Call[] = [];
  const waiting = new Set<() => void>();
  const handle = (context: HandlerContext) =>
    new Promise<void>((resolve, reject) => {
      calls.push({ ...context, end: (error) => (error === undefined ? resolve() : reject(error)) });
      for (const wake of waiting) {
        wake();
      }
    });
  const handlers: Handlers = Object.fromEntries(names.map((name) => [name, handle]));
  const called = async (count: number) => {
    while (calls.length < count) {
      await new Promise<void>((resolve) => waiting.add(resolve));
    }
  };
  return { calls, called, handlers };
}

function openStore({ data, profile }: Scene, clock: Clock, lines: string[]): Store {
  return openSqliteStore({
    data,
    profile,
    command: 'test',
    socket: null,
    clock,
    // Never waits for the test: it is for a database that another process holds.
    alarm: realAlarm(realClock()),
    ids: realIds(clock),
    trustedFromMs: 0,
    report: {
      failed: (operation, error) => lines.push(`${operation?.name ?? 'turn'} failed: ${error}`),
      closedForGood: (error) => lines.push(`closed for good: ${error.message}`),
    },
  });
}

type Parts = Omit<SimulatedOptions, 'handlers'> & {
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly store: Store;
  readonly handlers: Handlers;
  readonly lines: string[];
};

function assemble(scene: Scene, { clock, alarm, store, lines, concurrencyMax = 4, ...options }: Parts): Runtime {
  const processes = createExecutor({
    runDirectory: scene.run,
    clock,
    alarm,
    segmentBytes: 64 * 1024,
    outputBytesMax: 256 * 1024,
    onEnd: (attemptId, end) => runtime.report(attemptId, end),
  });
  const handlers = createHandlerExecutor({
    handlers: options.handlers,
    onEnd: (attemptId, facts) => runtime.attempts.ended(attemptId, facts),
  });
  const callHandler = (launch: Launch) => {
    const { runId, attemptId, stepKey, packageName, taskId, tryNumber: attemptNumber } = launch;
    handlers.start({ runId, attemptId, stepKey, packageName, taskId, attemptNumber, env: {} });
  };
  const runtime: Runtime = new Runtime({
    store,
    executor: { ...processes, ...options.executor?.(processes) },
    handlers,
    clock,
    alarm,
    concurrencyMax,
    trustedFromMs: 0,
    runDirectory: scene.run,
    drives: true,
    begin: (launch) => (options.begin ?? callHandler)(launch, runtime),
    takeOutput: async (_attemptId, end) => end,
    onQuiet: null,
    onRunEnd: null,
    tidy: () => {},
    stopGraceMsMax: 4_000,
    log: (line) => lines.push(line),
  });
  return runtime;
}

/** As after a COMMIT that the storage failed behind its commit point: durable, and told to nobody. */
function withDoubts(sqlite: Store, isDoubtful: () => boolean): Store {
  let isUnknown = false;
  return {
    ...sqlite,
    attach: (hooks) =>
      sqlite.attach({
        ...hooks,
        committed(settled) {
          isUnknown = isDoubtful();
          isUnknown ? hooks.doubted?.() : hooks.committed(settled);
        },
      }),
    // Answers come before the next turn.
    submit: async (operation) => {
      const outcome = await sqlite.submit(operation);
      if (isUnknown) {
        throw new EdgeError('unknown-outcome', 'the storage failed in a commit', { hint: 'look at what it changed' });
      }
      return outcome;
    },
  };
}
