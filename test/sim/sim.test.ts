// The simulator over a fixed range of seeds, as `npm run sim` plays them: other processes, for it takes the event loop.
import { spawn } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { interesting } from './coverage.ts';

const program = path.join(import.meta.dirname, 'run.ts');

async function simulate(...args: string[]): Promise<{ readonly status: number | null; readonly output: string }> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { status, output };
}

t.test(
  'whatever happens to it, the runtime does what the model allows; and everything interesting happens',
  async (t) => {
    const { status, output } = await simulate('--seeds', '300', '--counts');
    t.equal(status, 0, output);
    t.match(output, /300 seeds in [0-9.]+ s, 0 failed/);
    for (const name of interesting) {
      t.ok(output.includes(`  ${name} `), name);
    }
  },
);

t.test('a seed plays the same again, to the last line of its trace', async (t) => {
  const [one, other] = [await simulate('--seed', '7'), await simulate('--seed', '7')];
  t.equal(one.status, 0, one.output);
  t.equal(one.output, other.output);
  t.match(one.output, /seed 7: nothing to complain of/);
});

t.test('wrong arguments are told', async (t) => {
  const { status, output } = await simulate('--seeds', 'many');
  t.equal(status, 2);
  t.match(output, /usage:/);
});
