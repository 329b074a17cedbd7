// A package whose first step waits at a gate that the test opens, and says what it does. Not a test itself.
import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';

export type Gated = {
  readonly directory: string;
  /** What commands said, a line each: `begin PID`, `end PID`, `after PID`. */
  lines(): readonly string[];
  /** Of the commands that began at the gate. */
  pids(): readonly number[];
  /** Lets one command pass. */
  release(): void;
  close(): void;
};

export const gatedName = 'gated';

export function writeGated(root: string): Gated {
  const trace = path.join(root, 'trace');
  const gate = path.join(root, 'gate');
  writeFileSync(trace, '');
  execFileSync('mkfifo', [gate]);
  const wait = { run: ['./wait.sh'], env: { TRACE: trace, GATE: gate } };
  const retry = { limit: 2, backoff: '10ms', on: ['lost'] };
  const manifest = {
    schema: 'qinglong/package@v1',
    name: gatedName,
    version: '1.0.0',
    tasks: {
      wait: { ...wait, grace: '100ms' },
      'wait-again': { ...wait, retry },
      alone: { run: ['./alone.sh'], env: { TRACE: trace, PLACE: path.join(root, 'alone') } },
      fails: { run: ['/bin/false'], retry: { limit: 5, backoff: '1h' } },
      nothing: { run: ['/bin/true'] },
      say: { run: ['/bin/echo', 'hello'] },
      after: { run: ['/bin/sh', '-c', 'echo "after $$" >>"$TRACE"'], env: { TRACE: trace } },
    },
    workflows: {
      plain: { steps: { first: { task: 'wait' }, second: { task: 'after', needs: ['first'] } } },
      single: {
        concurrency: 1,
        steps: { a: { task: 'alone' }, b: { task: 'alone' }, c: { task: 'alone', needs: ['a'] } },
      },
      'single-gate': { concurrency: 1, steps: { only: { task: 'wait' } } },
      later: { steps: { only: { task: 'fails' } } },
      patient: { timeout: '1m', steps: { only: { task: 'nothing' }, next: { task: 'nothing', needs: ['only'] } } },
      hasty: { timeout: '1s', steps: { only: { task: 'wait' } } },
      quick: { steps: { only: { task: 'nothing' } } },
      speaking: { steps: { say: { task: 'say' } } },
      again: { steps: { first: { task: 'wait-again' }, second: { task: 'after', needs: ['first'] } } },
    },
  };
  const directory = path.join(root, 'gated');
  mkdirSync(directory);
  writeFileSync(path.join(directory, 'qinglong.json'), JSON.stringify(manifest));
  const script = '#!/bin/sh\necho "begin $$" >>"$TRACE"\nread line <"$GATE"\necho "end $$" >>"$TRACE"\n';
  writeFileSync(path.join(directory, 'wait.sh'), script, { mode: 0o755 });
  // Says so where another one of it has its place.
  const alone =
    '#!/bin/sh\nmkdir "$PLACE" || echo "crowd $$" >>"$TRACE"\nsleep 0.1\nrmdir "$PLACE"\necho "alone $$" >>"$TRACE"\n';
  writeFileSync(path.join(directory, 'alone.sh'), alone, { mode: 0o755 });
  const writer = openSync(gate, constants.O_RDWR | constants.O_NONBLOCK);
  const lines = () => readFileSync(trace, 'utf8').split('\n').slice(0, -1);
  return {
    directory,
    lines,
    pids: () => lines().flatMap((line) => (line.startsWith('begin ') ? [Number(line.slice('begin '.length))] : [])),
    release: () => void writeSync(writer, '\n'),
    close: () => closeSync(writer),
  };
}
