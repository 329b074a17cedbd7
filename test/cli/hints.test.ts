import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { edgeLine } from '../../src/cli/commands.ts';
import { sharedLine } from '../../src/cli/shared-commands.ts';

const commands = [...edgeLine.commands, ...sharedLine.commands];
const source = resolve(import.meta.dirname, '../../src');

/** What a text calls by its name, or after the name of the program. */
const told = [
  /\b(?:see|run|with|then|try|use|by) \\?`(?:\$\{(?:context\.)?(?:self|name)\} )?([a-z][a-z -]*)/g,
  /\$\{(?:context\.)?self\} ([a-z][a-z -]*)/g,
] as const;

function commandsToldIn(file: string): readonly string[] {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => !/^\s*(\/\/|\*|\/\*)/.test(line));
  return lines.flatMap((line) => told.flatMap((pattern) => [...line.matchAll(pattern)].map(([, words]) => words!)));
}

function isCommand(text: string): boolean {
  const words = text.trim().split(' ');
  return words[0] === 'help' || commands.some((command) => command.words.every((word, index) => words[index] === word));
}

t.test('what a text says to do next exists', async (t) => {
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.includes('generated'),
  );
  const all = files.flatMap((name) => commandsToldIn(join(source, name)).map((text) => ({ name, text })));
  t.ok(all.length > 40, 'there is something to check');
  t.same(
    all.filter(({ text }) => !isCommand(text)),
    [],
  );
});
