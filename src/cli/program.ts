// One call of the command line, from words to exit code. Owns dispatch, and how whatever goes wrong is told.
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';
import type { Alarm, Clock } from '../core/ports.ts';
import { type Parsed, parseArguments } from './arguments.ts';
import { quoteForShell } from './called-as.ts';
import type { CommandLine, Context } from './command.ts';
import { exitCodes, failureOf } from './failure.ts';
import { helpText, usageLine } from './help.ts';
import { givenSettings, type OptionValues } from './options.ts';
import { createOutput, type Output, type OutputStream } from './output.ts';
import { neutralizeLines } from './plain-text.ts';
import type { SharedSite } from './shared-place.ts';
import type { Storage } from './storage.ts';

export type ProgramOptions = {
  /** The words behind the program's name. */
  readonly argv: readonly string[];
  /** How it was called, as a person types it. */
  readonly name: string;
  /** The same, wherever it is typed. */
  readonly nameAnywhere: string;
  readonly line: CommandLine;
  readonly storage: Storage;
  /** See `Context`: given the options of the call. */
  readonly openShared: (values: OptionValues) => SharedSite | null;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly environment: (name: string) => string | null;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly exit: (code: number) => void;
  readonly onSignal: Context['onSignal'];
};

/** Returns the exit code when everything that was said has been taken; never throws. */
export async function runProgram(options: ProgramOptions): Promise<number> {
  const parsed = parseArguments(options.argv, options.line, options.environment);
  const output = createOutput({ ...options, isJson: wantsJson(parsed) });
  const code = await dispatch(options, parsed, output);
  await output.flush();
  return code;
}

async function dispatch(options: ProgramOptions, parsed: Parsed, output: Output): Promise<number> {
  try {
    switch (parsed.kind) {
      case 'help':
        output.print(...helpText(parsed.topic, options.line, options.name));
        return exitCodes.done;
      case 'version':
        return await (await import('./version-command.ts')).versionCommand({ output });
      case 'nothing':
        helpText({ kind: 'all' }, options.line, options.name).forEach(output.note);
        return exitCodes.usage;
      case 'mistaken':
        return output.fail(failureOf(usageError(parsed, options.name)));
      case 'command': {
        const handle = await parsed.command.load();
        return await handle(createContext(options, output, parsed.input.options), parsed.input);
      }
    }
  } catch (error) {
    const code = output.fail(failureOf(error));
    traceOf(error, options.environment).forEach(output.note);
    return code;
  }
}

/** Where an error comes from, for whoever looks for a defect. */
export function traceOf(error: unknown, environment: (name: string) => string | null): readonly string[] {
  const isWanted = environment('QINGLONG_EDGE_DEBUG') === '1' && error instanceof Error;
  return isWanted ? neutralizeLines(error.stack ?? '').split('\n') : [];
}

function wantsJson(parsed: Parsed): boolean {
  switch (parsed.kind) {
    case 'command':
      return parsed.input.options.json === true;
    case 'version':
      return parsed.options.json === true;
    case 'mistaken':
      return parsed.isJson;
    default:
      return false;
  }
}

function usageError({ command, mistakes }: Extract<Parsed, { kind: 'mistaken' }>, name: string): EdgeError {
  const [only] = mistakes;
  const message =
    mistakes.length === 1 && only !== undefined
      ? `${only.path} ${only.rule}`.trim()
      : `the command line has ${mistakes.length} mistakes`;
  const form = command === null ? `${name} --help` : `${name} ${command.words.join(' ')} --help`;
  const usage = command === null ? '' : `${usageLine(command, name)}; `;
  return new EdgeError('invalid', message, { hint: `${usage}see \`${form}\``, mistakes });
}

function createContext(options: ProgramOptions, output: Output, values: OptionValues): Context {
  const { storage, clock, alarm, onSignal } = options;
  const shared = options.openShared(values);
  const { data, 'run-dir': runDirectory = null, profile = null, durability = null } = values;
  const directory = path.resolve(data ?? '.qinglong-edge');
  return {
    output,
    storage: shared === null ? storage : { ...storage, openReader: () => shared.openReader() },
    shared,
    clock,
    alarm,
    data: directory,
    runDirectory: runDirectory === null ? null : path.resolve(runDirectory),
    profile,
    durability,
    givenSettings: givenSettings(values),
    environment: options.environment,
    self: selfOf(options, values),
    selfAnywhere: `${options.nameAnywhere} --data ${quoteForShell(directory)}`,
    onSignal,
  };
}

/** What must be typed again to reach the same runs: nothing where the environment says it. */
function selfOf({ name, environment }: ProgramOptions, { data, store }: OptionValues): string {
  const place = [
    store === undefined || store === environment('QINGLONG_EDGE_STORE') ? [] : ['--store', withoutPassword(store)],
    data === undefined || data === environment('QINGLONG_EDGE_DATA') ? [] : ['--data', quoteForShell(data)],
  ];
  return [name, ...place.flat()].join(' ');
}

/** A password is nowhere repeated: neither in a log nor in a message. */
function withoutPassword(url: string): string {
  return /:\/\/[^/?#]*:[^/?#]*@|[?&]password=/.test(url) ? 'postgres://…' : quoteForShell(url);
}
