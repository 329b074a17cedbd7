// Every option of the command line, once. Owns names, values, checks and the environment variable that stands in for an
// option; which command takes which option is commands.ts.
import { isIdentifier } from '../core/ids.ts';
import { limits } from '../core/limits.ts';
import {
  type GivenSettings,
  type SettingName,
  settingFlag,
  settingNames,
  settingRule,
  settingVariable,
} from '../runtime/settings.ts';

/** Null if the text is acceptable, else the rule that it breaks, to be put behind the option's name. */
export type TextRule = (text: string) => string | null;

type OptionDefinition = {
  readonly help: string;
  /** One letter that stands for it, such as `-h`. */
  readonly short?: string;
  /** Read where the option is not given. */
  readonly environment?: string;
} & (
  | { readonly kind: 'flag' }
  | { readonly kind: 'text'; readonly value: string; readonly rule: TextRule }
  | { readonly kind: 'count'; readonly value: string; readonly min: number; readonly max: number }
  | { readonly kind: 'choice'; readonly value: string; readonly choices: readonly string[] }
);

/** Nothing of it is repeated: a password may be anywhere in it. */
export const databaseUrlRule: TextRule = (text) =>
  /^postgres(ql)?:\/\//.test(text) && URL.canParse(text)
    ? null
    : 'must be a URL that begins with postgres://; # / ? @ : and % in a password are written as %23, %2F and so on';

const notEmpty: TextRule = (text) => (text === '' ? 'must not be empty' : null);

/** What fits the shortest page of a terminal; and what one answer may hold. */
const listLimits = { min: 1, max: 10_000 } as const;

/** A setting of the data directory: as an option it comes before the environment variable and config.json. */
function setting(name: SettingName, value: string, help: string) {
  const rule: TextRule = (text) => settingRule(name, text);
  return { kind: 'text', value, rule, environment: settingVariable(name), help } as const;
}

export const optionTable = {
  data: {
    kind: 'text',
    value: 'DIR',
    rule: notEmpty,
    environment: 'QINGLONG_EDGE_DATA',
    help: 'the data directory (default ./.qinglong-edge)',
  },
  store: {
    kind: 'text',
    value: 'URL',
    rule: databaseUrlRule,
    environment: 'QINGLONG_EDGE_STORE',
    help: 'the database that the runtimes share: postgres://USER@HOST/DATABASE',
  },
  profile: {
    kind: 'choice',
    value: 'NAME',
    choices: ['edge', 'standalone'],
    environment: 'QINGLONG_EDGE_PROFILE',
    help: 'edge or standalone; fixed when the data directory is made (default edge)',
  },
  durability: {
    kind: 'choice',
    value: 'NAME',
    choices: ['delete-extra', 'delete-full', 'wal-full'],
    environment: 'QINGLONG_EDGE_DURABILITY',
    help: 'delete-extra, delete-full or wal-full; fixed when the data directory is made',
  },
  'run-dir': {
    kind: 'text',
    value: 'DIR',
    rule: notEmpty,
    environment: 'QINGLONG_EDGE_RUN_DIR',
    help: 'where running commands are kept track of, best in memory (default below /run or /dev/shm)',
  },
  json: { kind: 'flag', help: 'print JSON: one document, or one object a line where something is followed' },
  help: { kind: 'flag', short: '-h', help: 'show help, also for one command' },
  version: { kind: 'flag', help: 'show the version' },
  workflow: { kind: 'text', value: 'ID', rule: notEmpty, help: 'the workflow, where the package has several' },
  key: {
    kind: 'text',
    value: 'KEY',
    rule: (text) =>
      isIdentifier(text)
        ? null
        : `must be 1 to ${limits.identifierBytesMax} of A-Z a-z 0-9 . _ : -, beginning with a letter or digit`,
    help: 'idempotency key: the same key starts one run, however often it is given',
  },
  wait: { kind: 'flag', help: 'follow the run to its end; the exit code is that of the run' },
  out: { kind: 'text', value: 'FILE', rule: notEmpty, help: 'write to this file' },
  lease: {
    kind: 'count',
    value: 'SECONDS',
    min: 2,
    max: 3600,
    help: "its runs are others' when nothing was heard of it for so long (default 15)",
  },
  'until-idle': { kind: 'flag', help: 'end when nothing can progress any more' },
  reason: {
    kind: 'text',
    value: 'TEXT',
    rule: (text) => (text.trim() === '' ? 'must not be empty' : reasonLength(text)),
    help: 'why, for the record',
  },
  page: { kind: 'count', value: 'N', min: 1, max: limits.pageMax, help: `at most N runs (default ${limits.pageMax})` },
  status: {
    kind: 'choice',
    value: 'STATUS',
    choices: ['running', 'succeeded', 'failed', 'cancelled', 'timed_out'],
    help: 'only runs of this status',
  },
  package: { kind: 'text', value: 'NAME', rule: notEmpty, help: 'only runs of this package' },
  limit: { kind: 'count', value: 'N', ...listLimits, help: 'at most N, the newest first (default 20)' },
  follow: { kind: 'flag', help: 'go on with what comes, until the run has ended' },
  attempt: {
    kind: 'count',
    value: 'N',
    min: 1,
    max: limits.attemptsPerStepMax,
    help: 'the Nth attempt of the step (default the last)',
  },
  tail: { kind: 'count', value: 'N', min: 1, max: 1_000_000, help: 'only the last N lines' },
  all: { kind: 'flag', help: 'everything, also on a terminal, which is shown the last 200 lines' },
  offset: {
    kind: 'count',
    value: 'BYTES',
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    help: 'from this byte of what the attempt wrote on',
  },
  bytes: {
    kind: 'count',
    value: 'N',
    min: 1,
    max: Number.MAX_SAFE_INTEGER,
    help: 'at most N bytes: from --offset on, else the last',
  },
  values: { kind: 'flag', help: 'show the values too: passwords may be among them' },
  verbose: { kind: 'flag', short: '-v', help: 'say more: all that an event holds, every run that ends' },
  raw: { kind: 'flag', help: 'the exact bytes, control characters included' },
  concurrency: setting('concurrency', 'N', 'commands that run at the same time (default edge 1, standalone 4)'),
  'on-stop': setting('onStop', 'HOW', 'running commands at the end: stop, or detach to leave them to the next holder'),
  'stop-limit': setting('stopLimit', 'TIME', 'what the service manager waits before it kills (default 5s)'),
  'keep-output': setting('keepOutput', 'WHEN', 'whose output is kept: failures (default), always or never'),
  'output-bytes-max': setting(
    'outputBytesMax',
    'SIZE',
    'output kept of one attempt (default edge 256k, standalone 4m)',
  ),
  'output-quota': setting('outputQuota', 'SIZE', 'all kept output (default 16 times that of one attempt)'),
  'packages-quota': setting('packagesQuota', 'SIZE', 'all package files (default edge 64m, standalone 1g)'),
  'allow-unsigned': setting('allowUnsigned', 'BOOL', 'true (default) or false: packages without a trusted signature'),
  shell: setting('shell', 'WORDS', 'the shell that runs the launcher, such as "busybox ash" (default /bin/sh)'),
  'boot-id': setting('bootId', 'ID', 'for tests: pretends another boot of the machine'),
  clear: { kind: 'flag', help: 'take back a run that was set aside, if it is sound' },
} as const satisfies Record<string, OptionDefinition>;

export type OptionName = keyof typeof optionTable;

type ValueOf<D> = D extends { readonly kind: 'flag' }
  ? true
  : D extends { readonly kind: 'count' }
    ? number
    : D extends { readonly kind: 'choice'; readonly choices: readonly (infer C)[] }
      ? C
      : string;

/** The options that were given, or that the environment gives. */
export type OptionValues = { readonly [N in OptionName]?: ValueOf<(typeof optionTable)[N]> };

export const globalOptions: readonly OptionName[] = [
  'data',
  'profile',
  'durability',
  'run-dir',
  'json',
  'help',
  'version',
];

/** Those of a command line that works on a shared database. */
export const sharedOptions: readonly OptionName[] = ['store', 'data', 'run-dir', 'json', 'help', 'version'];

/** The options that are settings of the data directory. */
export const settingOptions: readonly OptionName[] = settingNames.map(settingFlag).filter(isOptionName);

/** What of the settings was given as options. */
export function givenSettings(values: OptionValues): GivenSettings {
  const all: Readonly<Record<string, unknown>> = values;
  return Object.fromEntries(settingNames.map((name) => [name, all[settingFlag(name)]]));
}

export function optionDefinition(name: OptionName): OptionDefinition {
  return optionTable[name];
}

export function isOptionName(name: string): name is OptionName {
  return Object.hasOwn(optionTable, name);
}

/** The option that a short form such as `-h` stands for; null for any other word. */
export function optionOfShort(form: string): OptionName | null {
  return (Object.keys(optionTable) as OptionName[]).find((name) => optionDefinition(name).short === form) ?? null;
}

/** `--name VALUE`, as help and messages write it. */
export function optionForm(name: OptionName): string {
  const definition = optionDefinition(name);
  return definition.kind === 'flag' ? `--${name}` : `--${name} ${definition.value}`;
}

/** The value of an option's text, or the rule that the text breaks. */
export function readOptionValue(name: OptionName, text: string): { value: string | number } | { rule: string } {
  const definition = optionDefinition(name);
  switch (definition.kind) {
    case 'flag':
      return { rule: 'takes no value' };
    case 'text': {
      const rule = definition.rule(text);
      return rule === null ? { value: text } : { rule };
    }
    case 'choice':
      return definition.choices.includes(text)
        ? { value: text }
        : { rule: `must be one of ${definition.choices.join(', ')}` };
    case 'count': {
      const { min, max } = definition;
      const count = /^[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
      return count >= min && count <= max ? { value: count } : { rule: `must be a number from ${min} to ${max}` };
    }
  }
}

function reasonLength(text: string): string | null {
  const bytes = Buffer.byteLength(text);
  const max = limits.errorSummaryBytesMax;
  return bytes > max ? `has ${bytes} bytes, at most ${max} are allowed` : null;
}
