// The command line of the cluster's bundle: the same commands on a shared database. What looks at a data directory of
// one process has no place in it; what is otherwise there has the same words.
import type { Command, CommandLine } from './command.ts';
import { commands } from './commands.ts';
import { settingOptions, sharedOptions } from './options.ts';

const own: readonly Command[] = [
  {
    words: ['serve'],
    parameters: [],
    options: ['until-idle', 'lease', ...settingOptions],
    summary: 'carry runs on, together with all others that serve the same database, until stopped',
    load: async () => (await import('./shared-serve.ts')).serveCommand,
  },
  {
    words: ['status'],
    parameters: [],
    options: [],
    summary: 'show which runtimes serve the database, and how many runs there are',
    load: async () => (await import('./shared-status.ts')).statusCommand,
  },
  {
    words: ['migrate'],
    parameters: [],
    options: [],
    summary: 'make the schema, or bring it up to date; with a login that may',
    load: async () => (await import('./shared-migrate.ts')).migrateCommand,
  },
];

/** Each is about the data directory of one process, or the files on this machine. */
const left: ReadonlySet<string> = new Set(['package verify', 'advance', 'status', 'stop', 'doctor', 'serve']);

export const sharedLine: CommandLine = {
  about: 'Durable workflows on several machines that share a PostgreSQL database.',
  commands: [...own, ...commands.filter(({ words }) => !left.has(words.join(' ')))],
  globalOptions: sharedOptions,
};
