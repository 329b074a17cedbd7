// Every command, once: its words, what it takes, one line about it, and where it is done. Parsing, help and dispatch
// all read this table.
import type { Mistake } from '../core/errors.ts';
import { isIdentifier, isPackageName, isResourceId } from '../core/ids.ts';
import { settingNameRule } from '../core/manifest-rules.ts';
import type { Command, CommandLine, Parameter } from './command.ts';
import { checkLogsInput } from './log-input.ts';
import { globalOptions, settingOptions, type TextRule } from './options.ts';

const anyText: TextRule = (text) => (text === '' ? 'must not be empty' : null);
const packageRule: TextRule = (text) =>
  isPackageName(text) ? null : 'must be a package name: 1 to 63 of a-z, 0-9 and - (see `package list`)';
const workflowRule: TextRule = (text) => {
  const [packageName = '', workflowId = '', ...rest] = text.split('/');
  return isPackageName(packageName) && isResourceId(workflowId) && rest.length === 0
    ? null
    : 'must be PACKAGE/WORKFLOW (see `workflow list`)';
};
const runRule: TextRule = (text) => (isIdentifier(text) ? null : 'must be the id of a run, or how one begins');
const keyRule: TextRule = (text) =>
  isIdentifier(text) && text.startsWith('pk_')
    ? null
    : 'must be the id of a key, as in pk_… (`publisher list` has it, and `package show` of what it signed)';
const stepRule: TextRule = (text) => (isResourceId(text) ? null : 'must be the key of a step (see `runs show`)');

const directory: Parameter = { name: 'DIR', isRequired: true, rule: anyText };
const keyFile: Parameter = { name: 'KEYFILE', isRequired: true, rule: anyText };
const packageName: Parameter = { name: 'NAME', isRequired: true, rule: packageRule };
const workflow: Parameter = { name: 'PKG/WF', isRequired: true, rule: workflowRule };
const settingPackage: Parameter = { ...packageName, name: 'PKG' };
const setting: Parameter = { name: 'NAME', isRequired: true, rule: settingNameRule };
const run: Parameter = { name: 'ID', isRequired: true, rule: runRule };

function needs(option: string, argument: string): Mistake {
  return { file: null, path: option, line: null, rule: `needs ${argument}` };
}

export const commands: readonly Command[] = [
  {
    words: ['run'],
    parameters: [directory],
    options: ['workflow', 'key', ...settingOptions],
    summary:
      'install the package in DIR (or a .tar.gz or .tar) if it changed, start its workflow, and follow it to the end',
    load: async () => (await import('./run-command.ts')).runCommand,
  },
  {
    words: ['serve'],
    parameters: [],
    options: ['until-idle', 'verbose', ...settingOptions],
    summary: 'hold the data directory and carry its runs on, until stopped',
    load: async () => (await import('./serve-command.ts')).serveCommand,
  },
  {
    words: ['package', 'check'],
    parameters: [directory],
    options: [],
    summary: 'check the package in DIR (or a .tar.gz or .tar) and tell every mistake; nothing is written',
    load: async () => (await import('./package-commands.ts')).checkCommand,
  },
  {
    words: ['package', 'install'],
    parameters: [directory],
    options: [],
    summary: 'check the package in DIR (or a .tar.gz or .tar), copy it, and make its workflows startable',
    load: async () => (await import('./package-commands.ts')).installCommand,
  },
  {
    words: ['package', 'list'],
    parameters: [],
    options: [],
    summary: 'list the packages',
    load: async () => (await import('./package-list.ts')).listCommand,
  },
  {
    words: ['package', 'show'],
    parameters: [packageName],
    options: [],
    summary: 'show a package: its generation, state, workflows and tasks',
    load: async () => (await import('./package-list.ts')).showCommand,
  },
  {
    words: ['package', 'disable'],
    parameters: [packageName],
    options: ['reason'],
    summary: 'let nothing of a package start; what runs finishes',
    load: async () => (await import('./package-commands.ts')).disableCommand,
  },
  {
    words: ['package', 'enable'],
    parameters: [packageName],
    options: ['reason'],
    summary: 'let a disabled package start again',
    load: async () => (await import('./package-commands.ts')).enableCommand,
  },
  {
    words: ['package', 'uninstall'],
    parameters: [packageName],
    options: ['reason'],
    summary: 'remove a package; what runs finishes, and its history stays',
    load: async () => (await import('./package-commands.ts')).uninstallCommand,
  },
  {
    words: ['package', 'quarantine'],
    parameters: [packageName],
    options: ['reason'],
    requiredOptions: ['reason'],
    summary: 'forbid exactly these bytes of a package for good, and cancel what runs of it',
    load: async () => (await import('./package-commands.ts')).quarantineCommand,
  },
  {
    words: ['package', 'verify'],
    parameters: [packageName],
    options: [],
    summary: 'read the installed files again, name every one that was altered, and tell who signed them',
    load: async () => (await import('./package-verify.ts')).verifyCommand,
  },
  {
    words: ['package', 'sign'],
    parameters: [directory, keyFile],
    options: [],
    summary: 'sign the package in DIR with an Ed25519 private key in PEM: writes qinglong.sig, or beside an archive',
    load: async () => (await import('./package-sign.ts')).signCommand,
  },
  {
    words: ['publisher', 'add'],
    parameters: [keyFile],
    options: [],
    summary: 'trust the packages that a key signs: an Ed25519 public key as PEM, base64 or hex digits (- reads it)',
    load: async () => (await import('./publisher-commands.ts')).addCommand,
  },
  {
    words: ['publisher', 'list'],
    parameters: [],
    options: [],
    summary: 'list the keys that are trusted, or were revoked',
    load: async () => (await import('./publisher-commands.ts')).listCommand,
  },
  {
    words: ['publisher', 'revoke'],
    parameters: [{ name: 'KEY', isRequired: true, rule: keyRule }],
    options: ['reason'],
    requiredOptions: ['reason'],
    summary: 'trust a key no more, for good: nothing that it signed starts, and what runs of it is cancelled',
    load: async () => (await import('./publisher-commands.ts')).revokeCommand,
  },
  {
    words: ['settings', 'set'],
    parameters: [settingPackage, setting, { name: 'VALUE', isRequired: true, rule: () => null, isSecret: true }],
    options: [],
    summary: 'set what this device gives to a package (- reads it from standard input, less its one final newline)',
    load: async () => (await import('./settings-change.ts')).setCommand,
  },
  {
    words: ['settings', 'unset'],
    parameters: [settingPackage, setting],
    options: [],
    summary: 'remove what was set, which upgrading and uninstalling the package leave',
    load: async () => (await import('./settings-change.ts')).unsetCommand,
  },
  {
    words: ['settings', 'list'],
    parameters: [settingPackage],
    options: ['values'],
    summary: 'list what a package asks of this device: set, left to its default, missing, or not asked for',
    load: async () => (await import('./settings-list.ts')).listCommand,
  },
  {
    words: ['workflow', 'list'],
    parameters: [],
    options: [],
    summary: 'list the workflows of the installed packages',
    load: async () => (await import('./workflow-commands.ts')).listCommand,
  },
  {
    words: ['workflow', 'start'],
    parameters: [workflow],
    options: ['key', 'wait'],
    summary: 'start a run of a workflow',
    load: async () => (await import('./workflow-start.ts')).startCommand,
  },
  {
    words: ['workflow', 'plan'],
    parameters: [workflow],
    options: ['out'],
    summary: 'print a plan of one run, to be admitted later; nothing is written',
    load: async () => (await import('./workflow-commands.ts')).planCommand,
  },
  {
    words: ['workflow', 'admit'],
    parameters: [{ name: 'FILE', isRequired: true, rule: anyText }],
    options: [],
    summary: 'start the run of a plan (- reads it from standard input); the same plan again gives the same receipt',
    load: async () => (await import('./workflow-admit.ts')).admitCommand,
  },
  {
    words: ['advance'],
    parameters: [],
    options: ['page'],
    summary: 'move at most one page of runs on by one step of their frontier; nothing is started',
    load: async () => (await import('./workflow-commands.ts')).advanceCommand,
  },
  {
    words: ['runs', 'list'],
    parameters: [],
    options: ['status', 'package', 'limit'],
    summary: 'list runs, the newest first',
    load: async () => (await import('./runs-list.ts')).listCommand,
  },
  {
    words: ['runs', 'show'],
    parameters: [run],
    options: [],
    summary: 'show a run with its steps and attempts',
    load: async () => (await import('./runs-show.ts')).showCommand,
  },
  {
    words: ['runs', 'events'],
    parameters: [run],
    options: ['follow', 'verbose'],
    summary: 'print the history of a run',
    load: async () => (await import('./runs-events.ts')).eventsCommand,
  },
  {
    words: ['runs', 'logs'],
    parameters: [run, { name: 'STEP', isRequired: false, rule: stepRule }],
    options: ['attempt', 'tail', 'all', 'offset', 'bytes', 'follow', 'raw'],
    check: checkLogsInput,
    summary: 'print what the commands of a run wrote, or write',
    load: async () => (await import('./runs-logs.ts')).logsCommand,
  },
  {
    words: ['runs', 'cancel'],
    parameters: [run],
    options: [],
    summary: 'cancel a run: nothing more of it starts, and what runs is stopped',
    load: async () => (await import('./runs-cancel.ts')).cancelCommand,
  },
  {
    words: ['runs', 'retry'],
    parameters: [run],
    options: ['key', 'wait'],
    summary: 'start a run anew that has ended: of the same workflow, as it is installed now',
    load: async () => (await import('./runs-retry.ts')).retryCommand,
  },
  {
    words: ['status'],
    parameters: [],
    options: [],
    summary: 'show who holds the data directory, what runs, and what waits for what',
    load: async () => (await import('./status-command.ts')).statusCommand,
  },
  {
    words: ['stop'],
    parameters: [],
    options: ['on-stop'],
    summary: 'end the daemon of the data directory, and wait until it has ended',
    load: async () => (await import('./stop-command.ts')).stopCommand,
  },
  {
    words: ['verify'],
    parameters: [{ ...run, name: 'RUN', isRequired: false }],
    options: ['clear'],
    check: ({ arguments: [runId], options }) =>
      options.clear !== undefined && runId === undefined ? [needs('--clear', 'RUN')] : [],
    summary: 'fold the history of one run or of all, compare it with the present; without RUN check the database too',
    load: async () => (await import('./verify-command.ts')).verifyCommand,
  },
  {
    words: ['doctor'],
    parameters: [],
    options: [],
    summary: 'look at this machine and the data directory: storage, space, clock, damaged runs, holder',
    load: async () => (await import('./doctor-command.ts')).doctorCommand,
  },
  {
    words: ['version'],
    parameters: [],
    options: [],
    summary: 'show the version of this program, Node.js and SQLite',
    load: async () => (await import('./version-command.ts')).versionCommand,
  },
];

export const edgeLine: CommandLine = {
  about: 'Durable workflows on one small machine: packages of commands, run step by step, and every record of it kept.',
  commands,
  globalOptions,
};
