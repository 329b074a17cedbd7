// Descriptors that somebody left open to the runtime end there.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { testEachShell } from './stand.ts';

const starterFile = path.join(import.meta.dirname, 'starter.ts');

testEachShell('a command gets none of the descriptors that the runtime was started with', async (t, stand) => {
  const secret = openSync('/etc/hostname', 'r');
  const specification = { shell: stand.shell.command, argv: ['/bin/ls', '-l', '/proc/self/fd'] };
  const words = [starterFile, stand.runDirectory, 'at-1', JSON.stringify(specification)];
  // Node marks the first sixteen itself.
  const rest = Array.from({ length: 41 }, (_, index) => (index % 10 === 0 ? secret : 'ignore'));
  const stdio = ['ignore', 'pipe', 'inherit', ...rest] as ('ignore' | 'pipe' | 'inherit' | number)[];
  const starter = spawn(process.execPath, words, { stdio, env: {} });
  starter.stdout?.resume();
  await once(starter, 'close');
  closeSync(secret);
  const output = readFileSync(path.join(stand.directoryOf('at-1'), 'out.0'), 'latin1');
  t.match(output, / 0 -> \/dev\/null\n/);
  t.notMatch(output, /hostname/);
  for (const line of output.split('\n').filter((text) => / ([3-9]|[0-9]{2,}) -> /.test(text))) {
    t.match(line, / -> \/(dev\/null|proc\/[0-9]+\/fd)$/, line);
  }
});
