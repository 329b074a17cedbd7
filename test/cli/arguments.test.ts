import t from 'tap';
import { parseArguments } from '../../src/cli/arguments.ts';
import { commands, edgeLine } from '../../src/cli/commands.ts';
import { helpText } from '../../src/cli/help.ts';
import { type OptionName, optionTable } from '../../src/cli/options.ts';
import { sharedLine } from '../../src/cli/shared-commands.ts';

const nothing = () => null;

function parse(line: string, environment: Readonly<Record<string, string>> = {}) {
  return parseArguments(line.split(' ').filter(Boolean), edgeLine, (name) => environment[name] ?? null);
}

function mistakesOf(line: string, environment: Readonly<Record<string, string>> = {}): readonly string[] {
  const parsed = parse(line, environment);
  return parsed.kind === 'mistaken' ? parsed.mistakes.map(({ path, rule }) => `${path} ${rule}`) : [];
}

function commandOf(line: string, environment: Readonly<Record<string, string>> = {}) {
  const parsed = parse(line, environment);
  return parsed.kind === 'command'
    ? { words: parsed.command.words.join(' '), arguments: parsed.input.arguments, options: { ...parsed.input.options } }
    : parsed;
}

t.test('options stand before, between and behind the words of a command, with or without =', async (t) => {
  const expected = { words: 'runs logs', arguments: ['01a', 'merge'], options: { data: 'd', tail: 5, json: true } };
  t.same(commandOf('--data d runs logs 01a merge --tail 5 --json'), expected);
  t.same(commandOf('--data=d runs --json logs --tail=5 01a merge'), expected);
  t.same(commandOf('runs logs 01a --tail 5 merge --data d --json'), expected);
});

t.test('behind -- everything is an argument', async (t) => {
  t.same(commandOf('run -- --json'), { words: 'run', arguments: ['--json'], options: {} });
});

t.test('a single dash is an argument', async (t) => {
  t.same(commandOf('workflow admit -'), { words: 'workflow admit', arguments: ['-'], options: {} });
});

t.test('the environment stands in for an option that is not given, and an empty variable for none', async (t) => {
  const environment = { QINGLONG_EDGE_DATA: '/srv/ql', QINGLONG_EDGE_PROFILE: '' };
  t.same(commandOf('runs list', environment), { words: 'runs list', arguments: [], options: { data: '/srv/ql' } });
  t.same(commandOf('runs list --data x', environment), { words: 'runs list', arguments: [], options: { data: 'x' } });
  t.same(mistakesOf('runs list', { QINGLONG_EDGE_PROFILE: 'big' }), [
    'environment variable QINGLONG_EDGE_PROFILE must be one of edge, standalone',
  ]);
});

t.test('an unknown command is told with the nearest one', async (t) => {
  t.same(mistakesOf('rnu x'), ['rnu is no command; did you mean run?']);
  t.same(mistakesOf('runs sho 1'), ['runs has no sho; did you mean show?']);
  t.same(mistakesOf('runs'), ['runs needs one of list, show, events, logs, cancel, retry']);
  t.same(mistakesOf('--json'), [' no command was given']);
});

t.test('an unknown option is told with the nearest one of this command, and takes its value with it', async (t) => {
  t.same(mistakesOf('runs logs 01a --tali 5'), ['--tali is no option; did you mean --tail?']);
  t.same(mistakesOf('runs list --jsno'), ['--jsno is no option; did you mean --json?']);
  t.same(mistakesOf('runs list -x'), ['-x is no option']);
});

t.test('every mistake is told at once', async (t) => {
  t.same(mistakesOf('runs logs --tail many --colour --json=1 --reason x --tail 5'), [
    'ID is missing',
    '--tail must be a number from 1 to 1000000',
    '--colour is no option',
    '--json takes no value',
    '--reason does not belong to runs logs',
    '--tail is given twice',
  ]);
  t.same(mistakesOf('package quarantine Bad/Name extra'), [
    'NAME must be a package name: 1 to 63 of a-z, 0-9 and - (see `package list`), but is "Bad/Name"',
    '"extra" is one argument too many for `package quarantine`',
    '--reason is missing: --reason TEXT',
  ]);
});

t.test('an option that needs a value does not take the next option for it', async (t) => {
  t.same(mistakesOf('run p --key --json'), ['--key needs a value: --key KEY']);
});

t.test('what must hold between arguments and options is checked with the rest', async (t) => {
  t.same(mistakesOf('runs logs 01a --attempt 2'), ['--attempt needs STEP']);
  t.same(mistakesOf('verify --clear'), ['--clear needs RUN']);
  t.equal(parse('runs logs 01a merge --attempt 2').kind, 'command');
});

t.test('help is given whatever else is wrong, of a command where one was named', async (t) => {
  const all = { kind: 'help', topic: { kind: 'all' } };
  const logs = { kind: 'help', topic: { kind: 'command', command: { words: ['runs', 'logs'] } } };
  t.match(parse('runs logs --tail many --help'), logs);
  t.match(parse('-h'), all);
  t.match(parse('nonsense --help'), all);
  t.match(parse('runs nonsense --help'), { kind: 'help', topic: { kind: 'group', word: 'runs' } });
  t.match(parse('--version --json'), { kind: 'version', options: { json: true } });
  t.match(parse(''), { kind: 'nothing' });
});

t.test('help as a word is given of what follows it, and says where that is nothing', async (t) => {
  t.match(parse('help'), { kind: 'help', topic: { kind: 'all' } });
  t.match(parse('help run'), { kind: 'help', topic: { kind: 'command', command: { words: ['run'] } } });
  t.match(parse('help runs logs'), { kind: 'help', topic: { kind: 'command', command: { words: ['runs', 'logs'] } } });
  t.match(parse('help runs'), { kind: 'help', topic: { kind: 'group', word: 'runs' } });
  t.same(mistakesOf('help rnu'), ['rnu is no command; did you mean run?']);
  t.same(mistakesOf('help runs lgos'), ['runs has no lgos; did you mean logs?']);
});

t.test('help shows what a command cannot do without, and of a group its commands alone', async (t) => {
  const textOf = (line: string) => {
    const parsed = parse(line);
    return parsed.kind === 'help' ? helpText(parsed.topic, edgeLine, 'qinglong-edge').join('\n') : '';
  };
  t.match(textOf('help package quarantine'), /^usage: qinglong-edge package quarantine NAME --reason TEXT\n/);
  t.match(textOf('help package disable'), /^usage: qinglong-edge package disable NAME \[--reason TEXT\]\n/);
  t.match(textOf('help'), /^ {2}package quarantine NAME --reason TEXT {2}forbid /m);
  const runs = textOf('runs --help');
  t.match(runs, /^usage: qinglong-edge runs COMMAND /);
  const listed = commands.filter(({ words }) => new RegExp(`^ {2}${words.join(' ')} `, 'm').test(runs));
  t.same(
    listed,
    commands.filter(({ words }) => words[0] === 'runs'),
  );
});

t.test('what is told of input is bounded, however long it is', async (t) => {
  const long = 'x'.repeat(5_000);
  for (const line of [
    `package show ${long}`,
    `runs show ${long}`,
    `serve ${long}`,
    `--${long}`,
    long,
    `runs ${long}`,
  ]) {
    t.ok(mistakesOf(line).join('').length < 200, line.slice(0, 20));
  }
});

t.test('a short form stands for its option', async (t) => {
  t.match(commandOf('runs events 01a -v'), { options: { verbose: true } });
  t.same(mistakesOf('runs list -v'), ['--verbose does not belong to runs list']);
});

t.test('every option belongs to a command or to all of them, and every command has its own words', async (t) => {
  const lines = [edgeLine, sharedLine];
  const used = new Set<OptionName>(
    lines.flatMap((line) => [...line.globalOptions, ...line.commands.flatMap(({ options }) => options)]),
  );
  t.same(
    Object.keys(optionTable).filter((name) => !used.has(name as OptionName)),
    [],
  );
  for (const line of lines) {
    const names = line.commands.map(({ words }) => words.join(' '));
    t.equal(new Set(names).size, names.length);
    t.notOk(line.commands.some(({ options }) => options.some((name) => line.globalOptions.includes(name))));
  }
});

t.test('every command loads its handler', async (t) => {
  for (const { words, load } of [...commands, ...sharedLine.commands]) {
    t.type(await load(), 'function', words.join(' '));
  }
});

t.test('a value that says another option is one only with =', async (t) => {
  const parsed = parseArguments(['run', 'p', '--key=--json'], edgeLine, nothing);
  t.match(parsed, { kind: 'mistaken', mistakes: [{ path: '--key' }] });
});

t.test('a command of a group is found by its own word, and by what others call it', async (t) => {
  t.same(mistakesOf('logs 01a'), ['logs is no command; did you mean runs logs?']);
  t.same(mistakesOf('instal ./x'), ['instal is no command; did you mean package install?']);
  t.same(mistakesOf('remove demo'), ['remove is no command; did you mean package uninstall?']);
  t.same(mistakesOf('package remove demo'), ['package has no remove; did you mean package uninstall?']);
  t.same(
    mistakesOf('package rn'),
    mistakesOf('package xy').map((told) => told.replace('xy', 'rn')),
  );
  t.same(mistakesOf('stauts'), ['stauts is no command; did you mean status?']);
});

t.test('a key is told by its id, and where that is', async (t) => {
  t.match(mistakesOf('publisher revoke key.pub --reason leaked'), [
    /^KEY must be the id of a key, as in pk_… \(`publisher list` has it, .+\), but is "key\.pub"$/,
  ]);
});
