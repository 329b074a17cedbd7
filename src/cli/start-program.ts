// Gives a command line its real ports: arguments, streams, signals and clock of this process. Called by entries alone.
import { isatty } from 'node:tty';
import type { Clock } from '../core/ports.ts';
import { environmentVariable, realAlarm, realClock } from '../runtime/ports.ts';
import { calledAs } from './called-as.ts';
import { failureLines, failureOf } from './failure.ts';
import { type ProgramOptions, runProgram, traceOf } from './program.ts';

/** Carries out what this process was called for, and ends it. */
export function startProgram(parts: Pick<ProgramOptions, 'line' | 'storage' | 'openShared'>): void {
  // A broken invariant: the process stops, and recovery starts from what is durable.
  process.on('uncaughtException', (error) => {
    const failure = failureOf(error);
    process.stderr.write([...failureLines(failure), ...traceOf(error, environmentVariable), ''].join('\n'));
    process.exit(failure.exitCode);
  });
  const call = { file: process.argv[1] ?? 'qinglong-edge', searchPath: environmentVariable('PATH') ?? '' };
  const node = process.argv0.includes('/') ? process.execPath : process.argv0;
  // Only shows times and measures waiting: what needs to know the boot has a clock of its own, and says so.
  const clock = createClock();
  runProgram({
    ...parts,
    argv: process.argv.slice(2),
    name: calledAs({ ...call, node: process.argv0, directory: process.cwd() }),
    nameAnywhere: calledAs({ ...call, node, directory: null }),
    clock,
    alarm: realAlarm(clock),
    environment: environmentVariable,
    stdout: process.stdout,
    stderr: process.stderr,
    exit: (code) => process.exit(code),
    onSignal: listenToSignals,
  }).then((code) => process.exit(code));
}

function createClock(): Clock {
  try {
    return realClock();
  } catch {
    return realClock('unknown');
  }
}

function listenToSignals(listener: (signal: NodeJS.Signals) => void): () => void {
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
}
