// Reads the words of a command line by the table of commands: which command, its arguments, its options, or every
// mistake at once with the nearest spelling. Pure.
import type { Mistake } from '../core/errors.ts';
import { didYouMean, nearestName } from '../core/nearest.ts';
import type { Command, CommandLine, Input } from './command.ts';
import type { HelpTopic } from './help.ts';
import {
  isOptionName,
  type OptionName,
  type OptionValues,
  optionDefinition,
  optionForm,
  optionOfShort,
  optionTable,
  readOptionValue,
} from './options.ts';
import { cutInput, quoteInput } from './plain-text.ts';

/** Asks for help like `--help`, where a command's name stands. */
const helpWord = 'help';

export type Parsed =
  | { readonly kind: 'command'; readonly command: Command; readonly input: Input }
  | { readonly kind: 'help'; readonly topic: HelpTopic }
  | { readonly kind: 'version'; readonly options: OptionValues }
  /** Nothing was asked for at all. */
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'mistaken';
      readonly command: Command | null;
      readonly isJson: boolean;
      readonly mistakes: readonly Mistake[];
    };

type GivenOption = {
  readonly name: string;
  /** As it was written, without its value. */
  readonly form: string;
  readonly text: string | null;
};
type Tokens = { readonly words: readonly string[]; readonly given: readonly GivenOption[] };

/** `environment` stands in for options that are not given. */
export function parseArguments(
  argv: readonly string[],
  line: CommandLine,
  environment: (name: string) => string | null,
): Parsed {
  const { commands: table, globalOptions } = line;
  const { words, given } = splitTokens(argv);
  const isGiven = (name: OptionName) => given.some((option) => option.name === name);
  const isJson = isGiven('json');
  const found = findCommand(words, table);
  if (isGiven('help')) {
    const topic = findTopic(words, table) ?? findTopic(words.slice(0, 1), table) ?? findTopic([], table)!;
    return { kind: 'help', topic };
  }
  if (words[0] === helpWord) {
    const asked = words.slice(1);
    const topic = findTopic(asked, table);
    const { mistakes } = findCommand(asked, table);
    return topic === null ? { kind: 'mistaken', command: null, isJson, mistakes } : { kind: 'help', topic };
  }
  if (isGiven('version')) {
    return { kind: 'version', options: readOptions(given, { command: null, globalOptions, environment }).options };
  }
  if (argv.length === 0) {
    return { kind: 'nothing' };
  }
  const { options, mistakes } = readOptions(given, { command: found.command, globalOptions, environment });
  const input = { arguments: found.rest, options };
  const all = [...found.mistakes, ...(found.command === null ? [] : inputMistakes(found.command, input)), ...mistakes];
  if (found.command === null || all.length > 0) {
    return { kind: 'mistaken', command: found.command, isJson, mistakes: all };
  }
  return { kind: 'command', command: found.command, input };
}

/**
 * Takes options and their values apart from the words. Which value belongs to an option does not depend on the
 * command.
 */
function splitTokens(argv: readonly string[]): Tokens {
  const words: string[] = [];
  const given: GivenOption[] = [];
  for (let index = 0; index < argv.length; index += 1) {
    const token = argv[index]!;
    if (token === '--') {
      words.push(...argv.slice(index + 1));
      break;
    }
    const short = optionOfShort(token);
    if (short !== null) {
      given.push({ name: short, form: token, text: null });
    } else if (!token.startsWith('-') || token === '-') {
      words.push(token);
    } else {
      const [form = '', ...value] = token.split('=');
      // Only a short form has one dash: `-json` is told as a mistake, with what was meant.
      const name = form.startsWith('--') ? form.slice(2) : form;
      const next = argv[index + 1];
      const takesNext = value.length === 0 && takesValue(name) && next !== undefined && !next.startsWith('--');
      given.push({ name, form, text: value.length > 0 ? value.join('=') : takesNext ? next : null });
      index += takesNext ? 1 : 0;
    }
  }
  return { words, given };
}

/** A misspelled option takes a value where the one that was meant does: else its value would be a mistake too. */
function takesValue(name: string): boolean {
  const meant = isOptionName(name) ? name : nearestName(name, Object.keys(optionTable));
  return meant !== null && isOptionName(meant) && optionDefinition(meant).kind !== 'flag';
}

type FoundCommand = {
  readonly command: Command | null;
  readonly rest: readonly string[];
  readonly mistakes: readonly Mistake[];
};

/** What the words after `help`, or those beside `--help`, name; null where that is nothing. */
function findTopic(words: readonly string[], table: readonly Command[]): HelpTopic | null {
  const [word] = words;
  if (word === undefined || word === helpWord) {
    return { kind: 'all' };
  }
  const { command } = findCommand(words, table);
  if (command !== null) {
    return { kind: 'command', command };
  }
  const commands = table.filter((candidate) => candidate.words[0] === word);
  return commands.length === 0 || words.length > 1 ? null : { kind: 'group', word, commands };
}

function findCommand(words: readonly string[], table: readonly Command[]): FoundCommand {
  const command = table.find((candidate) => candidate.words.every((word, index) => words[index] === word)) ?? null;
  if (command !== null) {
    return { command, rest: words.slice(command.words.length), mistakes: [] };
  }
  const [first, second] = words;
  const members = table.filter((candidate) => candidate.words[0] === first && candidate.words.length > 1);
  if (first === undefined) {
    return { command, rest: [], mistakes: [mistake('', 'no command was given')] };
  }
  if (members.length === 0) {
    return { command, rest: [], mistakes: [mistake(cutInput(first), `is no command${suggest(first, table)}`)] };
  }
  const names = members.map((candidate) => candidate.words[1]!);
  const meant = names.find((name) => name === otherWords[second ?? '']);
  if (second !== undefined && meant !== undefined) {
    return { command, rest: [], mistakes: [mistake(first, `has no ${second}; did you mean ${first} ${meant}?`)] };
  }
  const rule =
    second === undefined
      ? `needs one of ${names.join(', ')}`
      : `has no ${cutInput(second)}${didYouMean(second, names) || `; it has ${names.join(', ')}`}`;
  return { command, rest: [], mistakes: [mistake(first, rule)] };
}

/** What other programs call it. */
const otherWords: Readonly<Record<string, string>> = { remove: 'uninstall', delete: 'uninstall', rm: 'uninstall' };

/** The command that was meant by a first word: its own, or the second one of a group (`logs`, `instal`). */
function suggest(word: string, table: readonly Command[]): string {
  const firsts = [helpWord, ...new Set(table.map(({ words }) => words[0]!))];
  const groups = table.filter(({ words }) => words.length > 1);
  const seconds = groups.map(({ words }) => words[1]!);
  const wanted = otherWords[word] ?? word;
  const second = seconds.includes(wanted) ? wanted : nearestName(wanted, [...firsts, ...seconds]);
  const meant = groups.filter(({ words }) => words[1] === second && !firsts.includes(words[1]!));
  return meant.length === 0
    ? didYouMean(word, firsts)
    : `; did you mean ${meant.map(({ words }) => words.join(' ')).join(' or ')}?`;
}

/** Whoever mistypes such a command may have put the secret anywhere. */
function takesSecret(command: Command | null): boolean {
  return command?.parameters.some(({ isSecret }) => isSecret === true) ?? false;
}

function inputMistakes(command: Command, input: Input): readonly Mistake[] {
  const { words, parameters, requiredOptions = [], check } = command;
  const { arguments: given, options } = input;
  const isSecret = takesSecret(command);
  const broken = parameters.flatMap(({ name, isRequired, rule }, index) => {
    const text = given[index];
    if (text === undefined) {
      return isRequired ? [mistake(name, 'is missing')] : [];
    }
    const broke = rule(text);
    return broke === null ? [] : [mistake(name, isSecret ? broke : `${broke}, but is ${quoteInput(text)}`)];
  });
  const surplus = given
    .slice(parameters.length)
    .map((text, index) => (isSecret ? `argument ${parameters.length + index + 1}` : quoteInput(text)))
    .map((name) => mistake(name, `is one argument too many for \`${words.join(' ')}\``));
  const missing = requiredOptions
    .filter((name) => !Object.hasOwn(options, name))
    .map((name) => mistake(`--${name}`, `is missing: ${optionForm(name)}`));
  return [...broken, ...surplus, ...missing, ...(check?.(input) ?? [])];
}

/** Null where no command was found: then it may be any option. */
type Allowed = { readonly command: Command | null; readonly globalOptions: readonly OptionName[] };

function readOptions(
  given: readonly GivenOption[],
  context: Allowed & { readonly environment: (name: string) => string | null },
): { readonly options: OptionValues; readonly mistakes: readonly Mistake[] } {
  const { command, globalOptions, environment } = context;
  const values: Partial<Record<OptionName, unknown>> = {};
  const mistakes: Mistake[] = [];
  for (const { name, form, text } of given) {
    const rule = isOptionName(name) ? misuseOf(name, { ...context, isTwice: Object.hasOwn(values, name) }) : null;
    if (!isOptionName(name)) {
      mistakes.push(
        takesSecret(command)
          ? mistake('what begins with -', 'is no option; a value like that is given behind --, or on standard input')
          : mistake(cutInput(form), `is no option${didYouMeanOption(name, context)}`),
      );
    } else if (rule !== null) {
      mistakes.push(mistake(`--${name}`, rule));
    } else {
      const reading = readGiven(name, text);
      values[name] = 'value' in reading ? reading.value : undefined;
      mistakes.push(...('rule' in reading ? [mistake(`--${name}`, reading.rule)] : []));
    }
  }
  for (const name of globalOptions) {
    const variable = optionDefinition(name).environment;
    const text = variable === undefined ? null : environment(variable);
    // Set but empty is what a shell makes of an unset variable handed on.
    if (variable !== undefined && text !== null && text !== '' && !Object.hasOwn(values, name)) {
      const reading = readOptionValue(name, text);
      values[name] = 'value' in reading ? reading.value : undefined;
      mistakes.push(...('rule' in reading ? [mistake(`environment variable ${variable}`, reading.rule)] : []));
    }
  }
  return { options: values as OptionValues, mistakes };
}

function readGiven(name: OptionName, text: string | null): { value: string | number | true } | { rule: string } {
  const isFlag = optionDefinition(name).kind === 'flag';
  if (text === null) {
    return isFlag ? { value: true } : { rule: `needs a value: ${optionForm(name)}` };
  }
  return readOptionValue(name, text);
}

function misuseOf(
  name: OptionName,
  { command, globalOptions, isTwice }: Allowed & { readonly isTwice: boolean },
): string | null {
  if (isTwice) {
    return 'is given twice';
  }
  const isOwn = command === null || globalOptions.includes(name) || command.options.includes(name);
  return isOwn ? null : `does not belong to ${command.words.join(' ')}`;
}

function didYouMeanOption(name: string, { command, globalOptions }: Allowed): string {
  const nearest = nearestName(name, [...globalOptions, ...(command?.options ?? [])]);
  return nearest === null ? '' : `; did you mean --${nearest}?`;
}

function mistake(path: string, rule: string): Mistake {
  return { file: null, path, line: null, rule };
}
