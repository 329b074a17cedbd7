// Help, made from the tables of commands and options. Pure.
import type { Command, CommandLine } from './command.ts';
import { type OptionName, optionDefinition, optionForm, settingOptions } from './options.ts';
import { padToWidth } from './plain-text.ts';

/** What help is asked about. */
export type HelpTopic =
  | { readonly kind: 'all' }
  /** Those that begin with the same word. */
  | { readonly kind: 'group'; readonly word: string; readonly commands: readonly Command[] }
  | { readonly kind: 'command'; readonly command: Command };

/** The lines of help; `name` is how this program is called. */
export function helpText(topic: HelpTopic, line: CommandLine, name: string): readonly string[] {
  switch (topic.kind) {
    case 'all':
      return overview(line, name);
    case 'group':
      return groupHelp(topic, name);
    case 'command':
      return commandHelp(topic.command, line, name);
  }
}

/** `runs logs ID [STEP]`: all that it cannot do without, and what else it takes. */
export function commandForm({ words, parameters, requiredOptions = [] }: Command): string {
  const shown = parameters.map(({ name, isRequired }) => (isRequired ? name : `[${name}]`));
  return [...words, ...shown, ...requiredOptions.map(optionForm)].join(' ');
}

function overview({ about, commands, globalOptions }: CommandLine, name: string): readonly string[] {
  return [
    `usage: ${name} [OPTION]... COMMAND [ARGUMENT]...`,
    '',
    about,
    '',
    'commands:',
    ...commandLines(commands),
    '',
    'options, before or after the command:',
    ...optionLines(globalOptions),
    '',
    `See \`${name} help COMMAND\` for the options of one command.`,
    'Exit codes: 0 done; 1 the run failed; 2 invalid input; 3 refused; 4 busy, full or unavailable; 5 damaged;',
    '124 the run timed out; 130 it was cancelled; 131 it was left and goes on.',
  ];
}

function groupHelp({ word, commands }: Extract<HelpTopic, { kind: 'group' }>, name: string): readonly string[] {
  return [
    `usage: ${name} ${word} COMMAND [ARGUMENT]...`,
    '',
    'commands:',
    ...commandLines(commands),
    '',
    `See \`${name} help ${word} COMMAND\` for the options of one command.`,
  ];
}

/** The settings of the data directory are told apart: a command takes all of them or none. */
function splitOptions(command: Command) {
  const settings = settingOptions.every((option) => command.options.includes(option)) ? settingOptions : [];
  return { settings, own: command.options.filter((option) => !settings.includes(option)) };
}

/** `usage: qinglong-edge runs logs ID [STEP] [--attempt N] …`, with all that is the command's own. */
export function usageLine(command: Command, name: string): string {
  const { own, settings } = splitOptions(command);
  const optional = own.filter((option) => !command.requiredOptions?.includes(option));
  const forms = [
    ...optional.map((option) => `[${optionForm(option)}]`),
    ...(settings.length === 0 ? [] : ['[SETTING]...']),
  ];
  return `usage: ${name} ${[commandForm(command), ...forms].join(' ')}`;
}

function commandHelp(command: Command, { globalOptions }: CommandLine, name: string): readonly string[] {
  const { own, settings } = splitOptions(command);
  return [
    usageLine(command, name),
    '',
    `${command.summary[0]!.toUpperCase()}${command.summary.slice(1)}.`,
    ...(own.length === 0 ? [] : ['', 'options:', ...optionLines(own, { isFromEnvironment: false })]),
    ...(settings.length === 0 ? [] : ['', ...settingsIntroduction, ...optionLines(settings)]),
    '',
    'options of every command:',
    ...optionLines(globalOptions),
  ];
}

const settingsIntroduction = [
  'settings: the option, else the environment variable, else the key in config.json of the data directory (its name',
  'as in `"stopLimit": "20s"`), else the default:',
];

/** What a command takes for itself alone never comes from the environment, also where it has the name of a setting. */
function optionLines(
  names: readonly OptionName[],
  { isFromEnvironment } = { isFromEnvironment: true },
): readonly string[] {
  return alignPairs(
    names.map((name) => {
      const { help, environment, short } = optionDefinition(name);
      const form = short === undefined ? optionForm(name) : `${short}, ${optionForm(name)}`;
      return [form, environment === undefined || !isFromEnvironment ? help : `${help} [${environment}]`];
    }),
  );
}

function commandLines(commands: readonly Command[]): readonly string[] {
  return alignPairs(commands.map((command) => [commandForm(command), command.summary]));
}

/** One that is longer than all others would push them all to the right: its own line is moved instead. */
const leftWidthMax = 24;

function alignPairs(pairs: readonly (readonly [string, string])[]): readonly string[] {
  const width = Math.min(leftWidthMax, Math.max(...pairs.map(([left]) => left.length)));
  return pairs.map(([left, right]) => `  ${padToWidth(left, width)}  ${right}`);
}
