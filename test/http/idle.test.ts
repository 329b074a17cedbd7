import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { createSocketClient } from '../../src/http/client.ts';
import { ask, connectTo, makeDirectory, readToEnd, sendBytes } from './scene.ts';

const program = fileURLToPath(new URL('./serving-process.ts', import.meta.url));

type Report = { readonly name: string; readonly resources: readonly string[]; readonly hasHttp: boolean };

type Serving = { readonly socketPath: string; readonly process: ChildProcess; nextReport(): Promise<Report> };

type Teardown = { teardown(action: () => unknown): void };

async function startServing(t: Teardown): Promise<Serving> {
  const socketPath = path.join(makeDirectory(t), 'run', 'sock');
  // V8 itself looks at its heap once, 8 s after there was something to do.
  const args = ['--no-memory-reducer', program, socketPath];
  // No pipe for its errors: node:net would open it with the first socket that it destroys, and count it.
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = once(child, 'close');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const nextReport = async () => JSON.parse((await lines.next()).value ?? 'null') as Report;
  await nextReport();
  return { socketPath, process: child, nextReport };
}

/** Requests of every kind, all of them over when this resolves. */
async function keepBusy(socketPath: string): Promise<void> {
  const client = createSocketClient({ socketPath });
  await Promise.all(Array.from({ length: 20 }, () => client.cancel({ runId: 'run-1', requestedBy: 'cli' })));
  for await (const _ of client.follow({ runId: 'run-1', after: 0 })) {
    // There is none: the stream only opens and ends.
  }
  await ask(socketPath, { target: '/v1/none' });
  await sendBytes(socketPath, 'hello\r\n\r\n');
  const silent = await connectTo(socketPath);
  const gone = readToEnd(silent);
  silent.end();
  await gone;
}

/** A client sees the end of its connection a moment before the server is done with it. */
async function untilAlone(serving: Serving): Promise<Report> {
  for (;;) {
    serving.process.kill('SIGUSR2');
    const report = await serving.nextReport();
    if (report.resources.filter((resource) => resource !== 'Timeout').length === 1) {
      return report;
    }
  }
}

t.test('node:http is loaded by the first connection, not before', async (t) => {
  const serving = await startServing(t);
  serving.process.kill('SIGUSR2');
  t.match(await serving.nextReport(), { resources: ['PipeWrap'], hasHttp: false });
  await ask(serving.socketPath, { target: '/v1/health' });
  serving.process.kill('SIGUSR2');
  t.match(await serving.nextReport(), { hasHttp: true });
});

t.test('after the last connection only the socket itself keeps the process alive', async (t) => {
  const serving = await startServing(t);
  await keepBusy(serving.socketPath);
  t.same((await untilAlone(serving)).resources, ['PipeWrap']);
});

// Numbers of epoll_wait and epoll_pwait, whose fourth argument is the longest wait in milliseconds.
const waitNumbers = process.arch === 'x64' ? ['232', '281'] : ['22'];

/** The longest wait of a process in its event loop; null where it does anything else, or goes on in a millisecond. */
function readWaitMs(pid: number): number | null {
  const [number = '', , , , timeout = '0'] = readFileSync(`/proc/${pid}/syscall`, 'latin1').split(' ');
  const waitMs = Number(BigInt.asIntN(32, BigInt(timeout)));
  return waitNumbers.includes(number) && waitMs !== 0 && waitMs !== 1 ? waitMs : null;
}

const canLook = existsSync('/proc/self/syscall') && ['x64', 'arm64'].includes(process.arch);

t.test(
  'after the last connection the process waits for ever: nothing is left that would wake it',
  { skip: !canLook && 'this kernel does not show system calls in /proc' },
  async (t) => {
    const serving = await startServing(t);
    await keepBusy(serving.socketPath);
    await untilAlone(serving);
    const { pid = 0 } = serving.process;
    let waitMs = readWaitMs(pid);
    while (waitMs === null) {
      await setImmediate();
      waitMs = readWaitMs(pid);
    }
    t.equal(waitMs, -1);
  },
);
