// `npm run mutate`: shows that the simulator and the tests would notice. Each rule of mutations.ts is broken in a copy
// of the sources, and whoever should notice is asked; before that the same is asked of the copy as it is, which has to
// pass. Prints who noticed what, and how soon; ends with 1 if a broken rule went unnoticed.
//   npm run mutate -- [--only NAME] [--seeds N]         NAME: a part of a name
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { readOrExit } from '../../edge-evidence/usage.ts';
import { type Mutation, mutations } from './mutations.ts';

const projectRoot = path.resolve(import.meta.dirname, '../..');
const copied = ['src', 'test', 'edge-evidence', 'schema', 'build', 'package.json', 'tsconfig.json', '.taprc'];
// A mutated program may not come to its end; the unmutated one takes a third of this on a busy machine.
const timeLimitMs = 240_000;

type Verdict = { readonly isCaught: boolean; readonly word: string; readonly output: string };

/** A source with one rule broken. Throws where the text to change is not there exactly once. */
export function mutateText(text: string, { name, file, from, to }: Omit<Mutation, 'caughtBy'>): string {
  const found = text.split(from).length - 1;
  if (found !== 1 || from === to) {
    throw new RangeError(`mutation "${name}" matches ${found} times in ${file}`);
  }
  return text.replace(from, () => to);
}

function makeCopy(): string {
  const copy = mkdtempSync(path.join(tmpdir(), 'qinglong-mutate-'));
  // Some tests start children as another user.
  chmodSync(copy, 0o755);
  for (const name of copied) {
    cpSync(path.join(projectRoot, name), path.join(copy, name), { recursive: true });
  }
  // What is killed cannot tidy up; this goes with the copy.
  mkdirSync(path.join(copy, 'tmp'));
  chmodSync(path.join(copy, 'tmp'), 0o1777);
  symlinkSync(path.join(projectRoot, 'node_modules'), path.join(copy, 'node_modules'));
  return copy;
}

/** Runs a command in the copy; what it says, and whether it ended well and in time. */
function run(
  copy: string,
  args: readonly string[],
): Promise<{ readonly status: number | null; readonly output: string }> {
  const env = { ...process.env, TMPDIR: path.join(copy, 'tmp') };
  const child = spawn(process.execPath, args, { cwd: copy, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
  const limit = setTimeout(() => {
    // Its whole group: a worker may be what does not end.
    process.kill(-(child.pid ?? process.pid), 'SIGKILL');
  }, timeLimitMs);
  return new Promise((resolve) => {
    child.once('close', (status) => {
      clearTimeout(limit);
      resolve({ status, output: Buffer.concat(chunks).toString() });
    });
  });
}

/** Asks whoever should notice. */
async function ask(copy: string, caughtBy: Mutation['caughtBy'], seeds: number): Promise<Verdict> {
  if (caughtBy === 'simulation') {
    const { status, output } = await run(copy, ['test/sim/run.ts', '--seeds', `${seeds}`, '--first', '--uncounted']);
    const word = /^seed .*$|^never happened.*$/m.exec(output)?.[0] ?? `the simulation ended with ${status}`;
    return { isCaught: status !== 0, word: shorten(word), output };
  }
  const { status, output } = await run(copy, ['node_modules/.bin/tap', '--reporter=tap', ...caughtBy]);
  const word = /^\s*not ok .*$/m.exec(output)?.[0].trim() ?? `tap ended with ${status}`;
  return { isCaught: status !== 0, word: shorten(`${path.basename(caughtBy[0] ?? '')}: ${word}`), output };
}

function shorten(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 199)}…`;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** What would be caught anyway proves nothing. */
async function findFalseAlarm(copy: string, chosen: readonly Mutation[], seeds: number): Promise<string | null> {
  const catchers = new Map(chosen.map(({ caughtBy }) => [JSON.stringify(caughtBy), caughtBy]));
  for (const caughtBy of catchers.values()) {
    const verdict = await ask(copy, caughtBy, seeds);
    if (verdict.isCaught) {
      return `${verdict.word}\n${verdict.output}`;
    }
  }
  return null;
}

async function judge(copy: string, mutation: Mutation, seeds: number): Promise<boolean> {
  const file = path.join(copy, mutation.file);
  const text = readFileSync(file, 'utf8');
  const began = performance.now();
  writeFileSync(file, mutateText(text, mutation));
  try {
    const { isCaught, word } = await ask(copy, mutation.caughtBy, seeds);
    const seconds = ((performance.now() - began) / 1_000).toFixed(1);
    print(`${isCaught ? 'caught  ' : 'SURVIVED'} ${seconds.padStart(6)} s  ${mutation.name}\n           ${word}`);
    return isCaught;
  } finally {
    writeFileSync(file, text);
  }
}

const usage = 'npm run mutate -- [--only NAME] [--seeds N]';

async function main(): Promise<number> {
  const options = { only: { type: 'string' }, seeds: { type: 'string', default: '300' } } as const;
  const { values } = readOrExit(usage, () => parseArgs({ options }));
  const chosen = mutations.filter(({ name }) => name.includes(values.only ?? ''));
  const seeds = Number(values.seeds);
  if (chosen.length === 0 || !Number.isSafeInteger(seeds)) {
    process.stderr.write(`usage: ${usage}\n`);
    return 2;
  }
  const copy = makeCopy();
  try {
    const falseAlarm = await findFalseAlarm(copy, chosen, seeds);
    if (falseAlarm !== null) {
      print(`the unmutated copy fails already: ${falseAlarm}`);
      return 1;
    }
    let survived = 0;
    for (const mutation of chosen) {
      survived += (await judge(copy, mutation, seeds)) ? 0 : 1;
    }
    print(`${chosen.length - survived} of ${chosen.length} mutations caught`);
    return survived === 0 ? 0 : 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  process.exitCode = await main();
}
