// Entry: the program `qinglong-edge`. Gives the command line its real ports and the SQLite adapter, which is loaded
// only when a command needs it.
import './engine-settings.ts';
import { realpathSync } from 'node:fs';
import { isatty } from 'node:tty';
import { isEdgeError } from '../core/errors.ts';
import type { Clock } from '../core/ports.ts';
import { describeError } from '../runtime/log.ts';
import { environmentVariable, realAlarm, realClock } from '../runtime/ports.ts';
import type { Durability } from '../store/sqlite/profile.ts';
import { calledAs } from './called-as.ts';
import { failureLines, failureOf } from './failure.ts';
import { runProgram, traceOf } from './program.ts';
import type { Storage } from './storage.ts';

const storage: Storage = {
  openStore:
    ({ report, ...options }) =>
    async (ports) => {
      const { openSqliteStore } = await import('../sqlite.ts');
      return openSqliteStore({
        ...ports,
        ...options,
        // The options' table holds exactly these.
        durability: options.durability as Durability | null,
        report: {
          failed: (operation, error) => report.failed(`${operation?.name ?? 'a turn'} failed: ${describeError(error)}`),
          closedForGood: report.closedForGood,
        },
      });
    },
  openReader: async (options) => (await import('../sqlite.ts')).openReader(options),
  async readHolder(data) {
    const { findDataDirectory } = await import('../store/sqlite/data-directory.ts');
    const { readHolder } = await import('../store/sqlite/holder-lock.ts');
    try {
      return readHolder(findDataDirectory(data));
    } catch (error) {
      if (isEdgeError(error) && error.code === 'not-found') {
        return null;
      }
      throw error;
    }
  },
  async readConfig(data) {
    return (await import('../store/sqlite/data-directory.ts')).readConfigFile(data);
  },
  async isHeld(data) {
    const { findDataDirectory } = await import('../store/sqlite/data-directory.ts');
    const { isHeld } = await import('../store/sqlite/holder-lock.ts');
    return isHeld(findDataDirectory(data));
  },
  async isHeldByProcess(data, pid) {
    const { findDataDirectory } = await import('../store/sqlite/data-directory.ts');
    const { isHeldByProcess } = await import('../store/sqlite/holder-lock.ts');
    return isHeldByProcess(findDataDirectory(data), pid);
  },
  async tryDurability({ data, durability }) {
    const { tryDurability } = await import('../store/sqlite/probe.ts');
    return tryDurability({ data: realpathSync(data), durability: durability as Durability });
  },
};

// A broken invariant: the process stops, and recovery starts from what is durable.
process.on('uncaughtException', (error) => {
  const failure = failureOf(error);
  process.stderr.write([...failureLines(failure), ...traceOf(error, environmentVariable), ''].join('\n'));
  process.exit(failure.exitCode);
});

// Only shows times and measures waiting: what needs to know the boot has a clock of its own, and says so.
const clock = createClock();

function createClock(): Clock {
  try {
    return realClock();
  } catch {
    return realClock('unknown');
  }
}

const call = { file: process.argv[1] ?? 'qinglong-edge', searchPath: environmentVariable('PATH') ?? '' };

runProgram({
  argv: process.argv.slice(2),
  name: calledAs({ ...call, node: process.argv0, directory: process.cwd() }),
  nameAnywhere: calledAs({
    ...call,
    node: process.argv0.includes('/') ? process.execPath : process.argv0,
    directory: null,
  }),
  storage,
  clock,
  alarm: realAlarm(clock),
  environment: environmentVariable,
  stdout: process.stdout,
  stderr: process.stderr,
  exit: (code) => process.exit(code),
  onSignal(listener) {
    const signals = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGHUP'] as const;
    // Node.js forgets that nohup had SIGHUP ignored. What has no terminal cannot lose it.
    const hasTerminal = [0, 1, 2].some((fd) => isatty(fd));
    const hear = (signal: NodeJS.Signals) => {
      if (signal !== 'SIGHUP' || hasTerminal) {
        listener(signal);
      }
    };
    signals.forEach((signal) => void process.on(signal, hear));
    return () => signals.forEach((signal) => void process.off(signal, hear));
  },
}).then((code) => process.exit(code));
