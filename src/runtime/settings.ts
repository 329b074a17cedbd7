// What differs between the profiles, and the settings of one data directory: their names, values and rules, and how a
// flag, an environment variable, config.json and the profile's default come together. Opens no file itself.
import { formatDuration, formatSize, parseDuration, parseSize } from '../core/duration.ts';
import { EdgeError, type Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { environmentVariable } from './ports.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

export type ProfileSettings = {
  /** Commands that run at the same time. */
  readonly concurrency: number;
  /** Output of one attempt that is kept: its first and last part. */
  readonly outputBytesMax: number;
  /** One segment of the pump: three of them are the most that an attempt holds in the run directory. */
  readonly segmentBytes: number;
  /** All package files together: a router has little flash for them. */
  readonly packagesQuotaBytes: number;
};

export const profileSettings = {
  edge: { concurrency: 1, outputBytesMax: 256 * KIB, segmentBytes: 512 * KIB, packagesQuotaBytes: 64 * MIB },
  standalone: { concurrency: 4, outputBytesMax: 4 * MIB, segmentBytes: 2 * MIB, packagesQuotaBytes: 1024 * MIB },
} as const satisfies Record<string, ProfileSettings>;

export type Profile = keyof typeof profileSettings;

/** The one project of a data directory. */
export const localProjectId = 'local';

export type OnStop = 'stop' | 'detach';
export type KeepOutput = 'failures' | 'always' | 'never';

/** The settings in force, defaults filled in. */
export type RuntimeSettings = {
  /** Attempts that may run at the same time, all workflows together. */
  readonly concurrency: number;
  /** What becomes of running commands when the process that holds the directory ends. */
  readonly onStop: OnStop;
  /** What the service manager gives this process between TERM and KILL. */
  readonly stopLimitMs: number;
  /** Of which attempts the output is kept after their end. */
  readonly keepOutput: KeepOutput;
  /** Output of one attempt that is kept: its first and last part. */
  readonly outputBytesMax: number;
  /** All kept output together. */
  readonly outputQuotaBytes: number;
  /** All package files together. */
  readonly packagesQuotaBytes: number;
  /** Whether packages without a signature of a trusted publisher may be installed. */
  readonly allowUnsigned: boolean;
  /** What runs the launcher: the shell and its own words. */
  readonly shell: readonly string[];
  /** For tests: what this process takes for the identity of the present boot; null asks the kernel. */
  readonly bootId: string | null;
};

type Reading<T> = { readonly value: T } | { readonly rule: string };
type SettingRule<T> = (value: unknown) => Reading<T>;

// As config.json has them: JSON values, durations and sizes as texts with one unit.
const rules = {
  concurrency: count(1, limits.concurrencyMax),
  onStop: choice('stop', 'detach'),
  stopLimit: unit({ min: 1_000, max: limits.durationMsMax, parse: parseDuration, format: formatDuration, like: '5s' }),
  keepOutput: choice('failures', 'always', 'never'),
  outputBytesMax: size(4 * KIB, limits.outputBytesMax),
  outputQuota: size(4 * KIB, limits.quotaBytesMax),
  packagesQuota: size(MIB, limits.quotaBytesMax),
  allowUnsigned: (value) => (typeof value === 'boolean' ? { value } : { rule: 'must be true or false' }),
  shell: readWords,
  bootId: (value) =>
    typeof value === 'string' && /^[0-9a-z-]{1,64}$/.test(value)
      ? { value }
      : { rule: 'must be 1 to 64 of a-z, 0-9 and -' },
} as const satisfies Record<string, SettingRule<unknown>>;

export type SettingName = keyof typeof rules;
type Values = { [N in SettingName]?: Extract<ReturnType<(typeof rules)[N]>, { value: unknown }>['value'] };

export const settingNames = Object.keys(rules) as readonly SettingName[];

/** Settings as somebody gave them: values as config.json has them, or the texts of a command line. */
export type GivenSettings = { readonly [N in SettingName]?: unknown };

/** The same as options of `openRuntime`. */
export type SettingOptions = {
  /** Attempts that may run at the same time (edge 1, standalone 4). */
  readonly concurrency?: number;
  /** What `close` does by default with what runs: end it and record that, or leave it to the next process. */
  readonly onStop?: OnStop;
  /** What this process has between being told to end and being killed, such as `5s`. */
  readonly stopLimit?: string;
  /** Of which attempts the output is kept after their end (default failures). */
  readonly keepOutput?: KeepOutput;
  /** Kept output of one attempt, first and last part, such as `256k` (edge 256k, standalone 4m). */
  readonly outputBytesMax?: string;
  /** All kept output together (default 16 times that of one attempt). */
  readonly outputQuota?: string;
  /** All package files together (edge 64m, standalone 1g). */
  readonly packagesQuota?: string;
  /** Whether packages without a trusted publisher's signature may be installed (default true). */
  readonly allowUnsigned?: boolean;
  /** The shell that runs the launcher (default `/bin/sh`). */
  readonly shell?: string | readonly string[];
  /** For tests: pretends another boot of the machine. */
  readonly bootId?: string;
};

/** config.json of a data directory, with whatever else it says. */
export type ConfigFile = { readonly path: string; readonly values: Readonly<Record<string, unknown>> };

export type SettingsSources = {
  /** Flags of a command or options of `openRuntime`; the first to count. */
  readonly given: GivenSettings;
  readonly environment?: (name: string) => string | null;
  /** Null where there is none yet. */
  readonly config: ConfigFile | null;
  /** As asked for; null takes what config.json says, or `edge`. */
  readonly profile: Profile | null;
  /** What `onStop` is where nobody says it. */
  readonly onStopDefault?: OnStop;
};

/** `QINGLONG_EDGE_STOP_LIMIT` for `stopLimit`. */
export function settingVariable(name: SettingName): string {
  return `QINGLONG_EDGE_${toWords(name).join('_').toUpperCase()}`;
}

/** `stop-limit` for `stopLimit`. */
export function settingFlag(name: SettingName): string {
  return toWords(name).join('-').toLowerCase();
}

/** The rule that a value, or a text of the command line, breaks; null where it breaks none. */
export function settingRule(name: SettingName, value: unknown): string | null {
  const reading = rules[name](typeof value === 'string' ? fromText(name, value) : value);
  return 'rule' in reading ? reading.rule : null;
}

/**
 * The settings in force: flag, environment variable, config.json, default of the profile, in this order. Throws
 * `invalid` with every mistake of all of them, each with its file, key and rule.
 */
export function readRuntimeSettings(sources: SettingsSources): RuntimeSettings {
  const { given, environment = environmentVariable, config } = sources;
  const mistakes: Mistake[] = [];
  const values: { [N in SettingName]?: unknown } = {};
  for (const name of settingNames) {
    const variable = settingVariable(name);
    const text = environment(variable);
    const value = given[name];
    const asked = [
      { file: null, path: name, value: typeof value === 'string' ? fromText(name, value) : value },
      { file: null, path: `environment variable ${variable}`, value: text === null ? null : fromText(name, text) },
      { file: config?.path ?? null, path: name, value: config?.values[name] },
    ].filter((source) => source.value !== undefined && source.value !== null && source.value !== '');
    const readings = asked.map((source) => ({ ...source, reading: rules[name](source.value) as Reading<unknown> }));
    // Also of those that do not count now: the one above them may be gone next time.
    for (const { file, path, reading } of readings) {
      mistakes.push(...('rule' in reading ? [{ file, path, line: null, rule: reading.rule }] : []));
    }
    const [first] = readings;
    values[name] = first !== undefined && 'value' in first.reading ? first.reading.value : undefined;
  }
  const asked = values as Values;
  const onStop = asked.onStop ?? sources.onStopDefault ?? 'stop';
  const settings = withDefaults({ ...asked, onStop }, profileOf(sources));
  if (mistakes.length === 0 && settings.outputQuotaBytes < settings.outputBytesMax) {
    const rule = `must be at least outputBytesMax, which is ${formatSize(settings.outputBytesMax)}`;
    mistakes.push({
      file: config?.values['outputQuota'] === undefined ? null : config.path,
      path: 'outputQuota',
      line: null,
      rule,
    });
  }
  refuseMistakes(mistakes);
  return settings;
}

/** The defaults of a profile, for whoever has no data directory's settings to read. */
export function defaultSettings(profile: Profile): RuntimeSettings {
  return withDefaults({}, profileSettings[profile]);
}

function withDefaults(values: Values, profile: ProfileSettings): RuntimeSettings {
  const outputBytesMax = values.outputBytesMax ?? profile.outputBytesMax;
  return {
    concurrency: values.concurrency ?? profile.concurrency,
    onStop: values.onStop ?? 'stop',
    // What procd waits.
    stopLimitMs: values.stopLimit ?? 5_000,
    keepOutput: values.keepOutput ?? 'failures',
    outputBytesMax,
    outputQuotaBytes: values.outputQuota ?? 16 * outputBytesMax,
    packagesQuotaBytes: values.packagesQuota ?? profile.packagesQuotaBytes,
    allowUnsigned: values.allowUnsigned ?? true,
    shell: values.shell ?? ['/bin/sh'],
    bootId: values.bootId ?? null,
  };
}

/** Settings as config.json has them. */
export function describeSettings(settings: RuntimeSettings): { readonly [N in SettingName]: unknown } {
  return {
    concurrency: settings.concurrency,
    onStop: settings.onStop,
    stopLimit: formatDuration(settings.stopLimitMs),
    keepOutput: settings.keepOutput,
    outputBytesMax: formatSize(settings.outputBytesMax),
    outputQuota: formatSize(settings.outputQuotaBytes),
    packagesQuota: formatSize(settings.packagesQuotaBytes),
    allowUnsigned: settings.allowUnsigned,
    shell: settings.shell,
    bootId: settings.bootId,
  };
}

/** A profile that does not exist is refused by who opens the store. */
function profileOf({ config, profile }: SettingsSources): ProfileSettings {
  const named = profile ?? config?.values['profile'];
  const durability = config?.values['durability'];
  return named === 'standalone' || (named == null && durability === 'wal-full')
    ? profileSettings.standalone
    : profileSettings.edge;
}

function refuseMistakes(mistakes: readonly Mistake[]): void {
  const [first] = mistakes;
  if (first === undefined) {
    return;
  }
  const { file, path, rule } = first;
  const message = mistakes.length === 1 ? `${path} ${rule}` : `${mistakes.length} settings are wrong`;
  throw new EdgeError('invalid', file === null || mistakes.length > 1 ? message : `${file}: ${message}`, {
    hint: 'correct what is named, or leave it out for the default',
    mistakes,
  });
}

function toWords(name: SettingName): readonly string[] {
  return name.split(/(?=[A-Z])/);
}

/** A text as the JSON value that it stands for, where that is no text itself. */
function fromText(name: SettingName, text: string): unknown {
  switch (name) {
    case 'concurrency':
      return /^[0-9]{1,9}$/.test(text) ? Number(text) : text;
    case 'allowUnsigned':
      return text === 'true' ? true : text === 'false' ? false : text;
    default:
      return text;
  }
}

function count(min: number, max: number): SettingRule<number> {
  return (value) =>
    typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
      ? { value }
      : { rule: `must be a whole number from ${min} to ${max}` };
}

function choice<const C extends string>(...choices: readonly C[]): SettingRule<C> {
  return (value) => {
    const chosen = choices.find((name) => name === value);
    return chosen === undefined ? { rule: `must be one of ${choices.join(', ')}` } : { value: chosen };
  };
}

type Unit = {
  readonly min: number;
  readonly max: number;
  readonly parse: (text: string) => number | null;
  readonly format: (value: number) => string;
  readonly like: string;
};

function unit({ min, max, parse, format, like }: Unit): SettingRule<number> {
  return (value) => {
    const parsed = typeof value === 'string' ? parse(value) : null;
    if (parsed === null) {
      return { rule: `must be a whole number and one unit, such as ${like}` };
    }
    return parsed < min || parsed > max ? { rule: `must be from ${format(min)} to ${format(max)}` } : { value: parsed };
  };
}

function size(min: number, max: number): SettingRule<number> {
  return unit({ min, max, parse: parseSize, format: formatSize, like: '512k, 64m or 1g' });
}

/** A list of words, or one text of words with blanks in between. */
function readWords(value: unknown): Reading<readonly string[]> {
  const words: unknown = typeof value === 'string' ? value.split(' ').filter((word) => word !== '') : value;
  const isList = Array.isArray(words) && words.length > 0 && words.length <= limits.argumentsMax;
  return isList && words.every((word) => typeof word === 'string' && word !== '' && !word.includes('\0'))
    ? { value: words as readonly string[] }
    : { rule: 'must be the words of a shell, such as /bin/sh or ["busybox", "ash"]' };
}
