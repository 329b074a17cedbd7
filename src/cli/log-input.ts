// What must hold between the arguments and options of `runs logs`. Loaded with the table of commands. Pure.
import type { Mistake } from '../core/errors.ts';
import type { Input } from './command.ts';
import type { OptionName } from './options.ts';

const exclusive: readonly (readonly [OptionName, OptionName])[] = [
  ['tail', 'all'],
  ['tail', 'offset'],
  ['tail', 'bytes'],
  ['all', 'offset'],
  ['all', 'bytes'],
  ['follow', 'bytes'],
  ['raw', 'json'],
];

export function checkLogsInput({ arguments: [, step], options }: Input): readonly Mistake[] {
  const given = (name: OptionName) => options[name] !== undefined;
  const mistake = (name: OptionName, rule: string) => ({ file: null, path: `--${name}`, line: null, rule });
  const needing = (['attempt', 'offset'] as const).filter((name) => given(name) && step === undefined);
  const isMixed = given('raw') && given('follow') && step === undefined;
  return [
    ...needing.map((name) => mistake(name, 'needs STEP')),
    // Bytes of several commands without a word between them are nobody's output.
    ...(isMixed ? [mistake('raw', 'needs STEP together with --follow')] : []),
    ...exclusive
      .filter((names) => names.every(given))
      .map(([name, other]) => mistake(name, `cannot be given together with --${other}`)),
  ];
}
