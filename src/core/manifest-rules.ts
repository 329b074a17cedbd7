// The rules of single values in a package: each takes a value and says in plain words what is wrong with it, or null.
// Shared by the manifest (what people write) and the revision (what the database holds), so that both accept the same.
import { utf8Bytes } from './canonical-json.ts';
import { formatDuration, parseDuration, parseSize } from './duration.ts';
import { isPackageName, isResourceId } from './ids.ts';
import { limits } from './limits.ts';
import { normalizePackagePath } from './package-path.ts';

export type Rule<T> = (value: T) => string | null;

export const resourceIdPattern = '^[a-z][a-z0-9-]*$';
export const packageNamePattern = '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$';
// Versions of semantic versioning, of Debian and of OpenWrt (`1.2.0~rc1-r1`).
export const versionPattern = '^[0-9A-Za-z][0-9A-Za-z.+~_-]*$';
// `__proto__` is a legal name of a variable that no program uses, and a trap in every object that holds one.
export const environmentNamePattern = '^(?!QL_|__proto__$)[A-Za-z_][A-Za-z0-9_]*$';

// What useradd takes, and with it every name that /etc/passwd of a small system holds; or the number itself.
export const userPattern = '^([a-z_][a-z0-9_-]{0,31}[$]?|0|[1-9][0-9]{0,9})$';

// What dash, BusyBox ash or bash set, change or interpret themselves, or let nobody set.
const shellVariablePatterns = [
  ...['_', 'IFS', 'OPT(ARG|ERR|IND)', 'PS[0-4]', 'PPID', 'E?UID', 'GROUPS', 'PWD', 'OLDPWD', 'SHLVL', 'LINENO'],
  ...['S?RANDOM', 'SECONDS', 'EPOCH(SECONDS|REALTIME)', 'HIST[A-Z]*', 'FUNC(NAME|NEST)', 'DIRSTACK', 'PIPESTATUS'],
  ...['POSIXLY_CORRECT', 'SHELLOPTS', 'BASH[A-Z_]*', 'COMP_[A-Z_]*'],
];

const shellVariableExpression = new RegExp(`^(${shellVariablePatterns.join('|')})$`);
const userExpression = new RegExp(userPattern);
const versionExpression = new RegExp(versionPattern);
const environmentNameExpression = new RegExp(environmentNamePattern);

/** Text that reaches a command, a file and a terminal unharmed. */
export const textRule: Rule<string> = (value) => {
  if (value.includes('\0')) {
    return 'must not hold a NUL character';
  }
  return value.isWellFormed() ? null : 'must not hold half of a surrogate pair: it has no UTF-8';
};

/** Free text for people; length in Unicode characters. */
export const titleRule: Rule<string> = (value) => {
  if (value.trim() === '') {
    return 'must not be blank: leave it out instead';
  }
  const characters = [...value].length;
  return characters > limits.titleCharactersMax
    ? `must have at most ${limits.titleCharactersMax} characters, but has ${characters}`
    : textRule(value);
};

export const resourceIdRule: Rule<string> = (value) =>
  isResourceId(value)
    ? null
    : `must be 1 to ${limits.resourceIdBytesMax} of a-z, 0-9 and -, beginning with a letter; a title may be any text`;

export const packageNameRule: Rule<string> = (value) =>
  isPackageName(value)
    ? null
    : `must be 1 to ${limits.packageNameBytesMax} of a-z, 0-9 and -, neither beginning nor ending with -`;

export const versionRule: Rule<string> = (value) =>
  value.length <= limits.versionBytesMax && versionExpression.test(value)
    ? null
    : `must be 1 to ${limits.versionBytesMax} of letters, digits and . + ~ _ -, beginning with a letter or digit`;

/** One word of a command line. Linux has a limit for each word, apart from that for all of them. */
export const argumentRule: Rule<string> = (value) => {
  const bytes = utf8Bytes(value);
  return bytes > limits.argumentBytesMax
    ? `must have at most ${limits.argumentBytesMax} bytes (Linux takes no longer argument), but has ${bytes}`
    : textRule(value);
};

export const shellRule: Rule<string> = (value) => (value.trim() === '' ? 'must not be blank' : argumentRule(value));

/** The first word of a command line, seen from the working directory. */
export const commandRule: Rule<{ readonly command: string; readonly cwd: string }> = ({ command, cwd }) => {
  if (command === '') {
    return 'must name a command, but is empty';
  }
  const leaves =
    !command.startsWith('/') && command.includes('/') && normalizePackagePath(`${cwd}/${command}`) === null;
  return leaves ? 'must stay inside the package; a command of the device is named from / or without any slash' : null;
};

export const cwdRule: Rule<string> = (value) => {
  if (normalizePackagePath(value) === null) {
    return 'must be a directory inside the package, such as . or scripts';
  }
  return utf8Bytes(value) > limits.filePathBytesMax
    ? `must have at most ${limits.filePathBytesMax} bytes`
    : textRule(value);
};

export const environmentNameRule: Rule<string> = (name) => {
  if (name.startsWith('QL_')) {
    return 'is a name that qinglong-edge sets itself: names with QL_ are reserved';
  }
  return environmentNameExpression.test(name)
    ? null
    : 'must be a name of letters, digits and _, beginning with a letter or _';
};

/** Whether a shell takes a variable of this name for its own, so that it cannot hand on any value as it is. */
export function isShellVariable(name: string): boolean {
  return shellVariableExpression.test(name);
}

/** A variable that a setting fills: a value may be a password, and reaches a command through a shell alone. */
export const settingVariableRule: Rule<string> = (name) =>
  isShellVariable(name) ? 'is a name that shells use themselves: no setting can fill it, only text' : null;

/** As a variable is named, so that a setting can have the name of the one that it fills. */
export const settingNameRule: Rule<string> = (name) =>
  environmentNameRule(name) ??
  (name.length > limits.settingNameBytesMax ? `must have at most ${limits.settingNameBytesMax} characters` : null);

/** A name of the device's user list, or a number: whether there is such a user, only the device can tell. */
export const userRule: Rule<string> = (value) => {
  const isUser = userExpression.test(value) && !(Number(value) > limits.userIdMax);
  return isUser ? null : `must be a user name such as nobody, or a number from 0 to ${limits.userIdMax}`;
};

/** Name and value share one string of the environment, `NAME=value`, with one limit. */
export const environmentEntryRule: Rule<{ readonly name: string; readonly value: string }> = ({ name, value }) => {
  const bytes = utf8Bytes(name) + 1 + utf8Bytes(value);
  const max = limits.argumentBytesMax;
  return bytes > max
    ? `must have at most ${max} bytes with its name and = (Linux takes no more), but has ${bytes}`
    : textRule(value);
};

/** `minMs` is the shortest that makes sense; the longest is what a timer can hold. */
export function durationRule(minMs: number): Rule<string> {
  return (value) => {
    const durationMs = parseDuration(value);
    if (durationMs === null) {
      return 'must be a duration: a whole number and one unit, such as 250ms 30s 5m 1h 7d';
    }
    if (durationMs > limits.durationMsMax) {
      return `must be at most ${limits.durationMsMax}ms (24 days): a timer holds no more`;
    }
    return durationMs < minMs ? `must be at least ${formatDuration(minMs)}` : null;
  };
}

/** `ulimit -t` counts whole seconds. */
export const cpuRule: Rule<string> = (value) =>
  durationRule(1_000)(value) ?? (parseDuration(value)! % 1_000 === 0 ? null : 'must be whole seconds');

export const memoryRule: Rule<string> = (value) => {
  const bytes = parseSize(value);
  if (bytes === null) {
    return 'must be a size: a whole number and one unit, such as 512k 64m 1g';
  }
  return bytes < limits.memoryLimitBytesMin || bytes > Number.MAX_SAFE_INTEGER
    ? 'must be at least 1m: nothing starts with less'
    : null;
};
