// Help, made from the tables of commands and options. Pure.
import type { Command } from './command.ts';
import { globalOptions, type OptionName, optionDefinition, optionForm } from './options.ts';
import { padToWidth } from './plain-text.ts';

const programName = 'qinglong-edge';

/** `runs logs ID [STEP]`. */
export function commandForm({ words, parameters }: Pick<Command, 'words' | 'parameters'>): string {
  const shown = parameters.map(({ name, isRequired }) => (isRequired ? name : `[${name}]`));
  return [...words, ...shown].join(' ');
}

/** What `--help` shows without a command. */
export function overview(table: readonly Command[]): readonly string[] {
  return [
    `usage: ${programName} [OPTION]... COMMAND [ARGUMENT]...`,
    '',
    'Durable workflows on one small machine: packages of commands, run step by step, and every record of it kept.',
    '',
    'commands:',
    ...alignPairs(table.map((command) => [commandForm(command), command.summary])),
    '',
    'options, before or after the command:',
    ...optionLines(globalOptions),
    '',
    `See \`${programName} COMMAND --help\` for the options of one command.`,
    'Exit codes: 0 done; 1 the run failed; 2 invalid input; 3 refused; 4 busy, full or unavailable; 5 damaged;',
    '124 the run timed out; 130 it was cancelled.',
  ];
}

/** What `COMMAND --help` shows. */
export function commandHelp(command: Command): readonly string[] {
  const own = command.options.map((name) => ` [${optionForm(name)}]`).join('');
  return [
    `usage: ${programName} ${commandForm(command)}${own}`,
    '',
    `${command.summary[0]!.toUpperCase()}${command.summary.slice(1)}.`,
    ...(command.options.length === 0 ? [] : ['', 'options:', ...optionLines(command.options)]),
    '',
    'options of every command:',
    ...optionLines(globalOptions),
  ];
}

function optionLines(names: readonly OptionName[]): readonly string[] {
  return alignPairs(
    names.map((name) => {
      const { help, environment } = optionDefinition(name);
      return [optionForm(name), environment === undefined ? help : `${help} [${environment}]`];
    }),
  );
}

function alignPairs(pairs: readonly (readonly [string, string])[]): readonly string[] {
  const width = Math.max(...pairs.map(([left]) => left.length));
  return pairs.map(([left, right]) => `  ${padToWidth(left, width)}  ${right}`);
}
