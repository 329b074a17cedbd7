// Entry: the program `qinglong-edge`. Gives the command line its real ports and the SQLite adapter, which is loaded
// only when a command needs it.
import './engine-settings.ts';
import { realpathSync } from 'node:fs';
import { isEdgeError } from '../core/errors.ts';
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

const clock = realClock();

runProgram({
  argv: process.argv.slice(2),
  name: calledAs({
    node: process.argv0,
    file: process.argv[1] ?? 'qinglong-edge',
    directory: process.cwd(),
    searchPath: environmentVariable('PATH') ?? '',
  }),
  storage,
  clock,
  alarm: realAlarm(clock),
  environment: environmentVariable,
  stdout: process.stdout,
  stderr: process.stderr,
  exit: (code) => process.exit(code),
  onSignal(listener) {
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
    signals.forEach((signal) => void process.on(signal, listener));
    return () => signals.forEach((signal) => void process.off(signal, listener));
  },
}).then((code) => process.exit(code));
