// A process of its own that looks after one attempt while it runs out of descriptors or processes, or as another user.
// Not a test itself.
//   node short-process.ts RUN-DIRECTORY SCENARIO JSON        SCENARIO: one of those below
// Prints one line of JSON: what it saw, and the attempt's end.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { limits } from '../../src/core/limits.ts';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import { readTakenState } from '../../src/executor/attempt-files.ts';
import { createExecutor } from '../../src/executor/executor.ts';
import { simulateTime } from './simulated-time.ts';
import { turn, until } from './until.ts';

const [runDirectory = '', scenario = '', specification = ''] = process.argv.slice(2);
const { shell, argv, gate, left } = JSON.parse(specification);
const attemptId = 'at-1';
const time = simulateTime();
let end: AttemptEnd | null = null;
const executor = createExecutor({
  runDirectory,
  ...time,
  segmentBytes: 65_536,
  outputBytesMax: 262_144,
  shell,
  onEnd: (_, reported) => {
    end = reported;
  },
});

function takeDescriptors(but: number): () => void {
  const taken: number[] = [];
  try {
    for (;;) {
      taken.push(openSync('/dev/null', 'r'));
    }
  } catch {
    taken.splice(0, but).map(closeSync);
  }
  return () => taken.map(closeSync);
}

async function takeProcesses(but: number): Promise<() => Promise<void>> {
  const taken: ChildProcess[] = [];
  for (let isFull = false; !isFull; ) {
    const child = spawn('/bin/sleep', ['600'], { stdio: 'ignore' });
    isFull = child.pid === undefined;
    child.on('error', () => {});
    if (!isFull) {
      taken.push(child);
    }
  }
  const release = async (children: readonly ChildProcess[]) => {
    for (const child of children) {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
  };
  await release(taken.splice(0, but));
  return () => release(taken);
}

function start(user: string | null = null): void {
  const env = { PATH: '/usr/bin:/bin', QL_ATTEMPT_ID: attemptId };
  executor.start({ attemptId, argv, env, cwd: '/', nice: null, limits: null, user });
}

/** Simulated time goes on, real processes have the turns in between. */
async function drive(): Promise<void> {
  while (end === null) {
    await turn(20);
    time.advance(50);
  }
}

/** What failed is done again after this; then nothing needs time. */
async function endAfter(byMs: number): Promise<void> {
  time.advance(byMs);
  await until(() => end !== null);
}

const scenarios: Readonly<Record<string, () => Promise<object>>> = {
  /** No descriptor to spare when the attempt is started, and again when there is. */
  async 'descriptors at the start'() {
    const release = takeDescriptors(left);
    start();
    await turn(20);
    const before = { end, running: executor.running() };
    release();
    await endAfter(limits.spawnRetryMsMin);
    return before;
  },
  /** They never come back. */
  async 'descriptors for good'() {
    const release = takeDescriptors(left);
    start();
    await drive();
    release();
    return {};
  },
  /** None to spare when the command ends. */
  async 'descriptors at the end'() {
    start();
    await until(() => readTakenState(`${runDirectory}/attempts/${attemptId}`) === 'taken');
    // Opening the gate takes a descriptor, until its reader has come.
    const opened = openSync(gate, 'r+');
    writeFileSync(opened, 'go\n');
    const release = takeDescriptors(left);
    await until(() => time.entriesCount() > 0 || end !== null);
    time.advance(limits.shortageLookMs);
    const before = { end, running: executor.running() };
    release();
    closeSync(opened);
    await endAfter(limits.shortageLookMs);
    return before;
  },
  /** None to spare when it is to be stopped. */
  async 'descriptors at a stop'() {
    start();
    await until(() => readTakenState(`${runDirectory}/attempts/${attemptId}`) === 'taken');
    const release = takeDescriptors(left);
    executor.stop(attemptId, { graceMs: 2 ** 30 });
    const before = { end, running: executor.running() };
    release();
    await drive();
    return before;
  },
  /** The command is to run as somebody else. */
  async 'another user'() {
    start('root');
    await drive();
    return {};
  },
  /** So many processes may be forked, and no more, for as long as the attempt lasts. */
  async 'processes for good'() {
    const release = await takeProcesses(left);
    start();
    await drive();
    await release();
    return {};
  },
  async 'processes at the start'() {
    const release = await takeProcesses(left);
    start();
    await turn(20);
    const before = { end, running: executor.running() };
    await release();
    await endAfter(limits.spawnRetryMsMin);
    return before;
  },
};

executor.prepare(attemptId);
const seen = await scenarios[scenario]!();
process.stdout.write(`${JSON.stringify({ ...seen, ended: end })}\n`);
