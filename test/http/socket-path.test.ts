import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { createSocketClient } from '../../src/http/client.ts';
import { serveSocket } from '../../src/http/server.ts';
import { realAlarm, realClock } from '../../src/runtime/ports.ts';
import { createVerbs, idleHolder, makeDirectory, openScene, rejection } from './scene.ts';

const clock = realClock();

function serve(socketPath: string) {
  const { verbs } = createVerbs();
  return serveSocket({ socketPath, verbs, ...idleHolder, clock, alarm: realAlarm(clock), log: () => {} });
}

function modeOf(file: string): number {
  return statSync(file).mode & 0o777;
}

t.test('only this user may use the socket, whatever the umask says', async (t) => {
  const umask = process.umask(0);
  t.teardown(() => process.umask(umask));
  const scene = await openScene(t);
  t.equal(modeOf(scene.socketPath), 0o600);
  t.equal(modeOf(path.dirname(scene.socketPath)), 0o700);
});

t.test('an empty directory is closed to others; one that holds anything must be closed already', async (t) => {
  const directory = path.join(makeDirectory(t), 'run');
  mkdirSync(directory);
  chmodSync(directory, 0o755);
  await (await serve(path.join(directory, 'sock'))).close();
  t.equal(modeOf(directory), 0o700);
  writeFileSync(path.join(directory, 'file'), '');
  for (const mode of [0o755, 0o770, 0o702]) {
    chmodSync(directory, mode);
    const error = await rejection(serve(path.join(directory, 'sock')));
    t.match(error, { code: 'unavailable', message: /open to other users/, hint: /chmod 700/ });
    t.equal(modeOf(directory), mode);
  }
  t.notOk(existsSync(path.join(directory, 'sock')));
});

t.test('a directory of another user is refused', { skip: process.getuid?.() !== 0 && 'needs root' }, async (t) => {
  const directory = path.join(makeDirectory(t), 'run');
  mkdirSync(directory, { mode: 0o700 });
  const { chownSync } = await import('node:fs');
  chownSync(directory, 65_534, 65_534);
  t.match(await rejection(serve(path.join(directory, 'sock'))), { code: 'unavailable', hint: /--run-dir/ });
});

t.test('a directory that cannot be made says which', async (t) => {
  const directory = makeDirectory(t);
  writeFileSync(path.join(directory, 'file'), '');
  const error = await rejection(serve(path.join(directory, 'file', 'run', 'sock')));
  t.match(error, { code: 'invalid', message: /ENOTDIR/, hint: /--run-dir/ });
});

t.test('the socket of a holder that was killed is replaced', async (t) => {
  const socketPath = path.join(makeDirectory(t), 'run', 'sock');
  mkdirSync(path.dirname(socketPath), { mode: 0o700 });
  const script = `require('net').createServer().listen(${JSON.stringify(socketPath)}, () => console.log('up'))`;
  const dead = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(dead, 'close');
  t.teardown(() => dead.kill('SIGKILL'));
  await once(dead.stdout, 'data');
  dead.kill('SIGKILL');
  await ended;
  t.ok(statSync(socketPath).isSocket(), 'it left its socket');
  const scene = await openScene(t, { socketPath });
  t.match(await scene.client.advance({ limit: 1 }), { hasMore: true });
  t.equal(modeOf(socketPath), 0o600);
});

t.test('the socket of a living process is left alone', async (t) => {
  const socketPath = path.join(makeDirectory(t), 'run', 'sock');
  const first = await openScene(t, { socketPath });
  t.match(await rejection(serve(socketPath)), { code: 'busy', message: /another process listens/, hint: /--run-dir/ });
  t.match(await first.client.advance({ limit: 1 }), { hasMore: true });
});

t.test('what is no socket is left alone', async (t) => {
  const directory = makeDirectory(t);
  const socketPath = path.join(directory, 'sock');
  const make = [
    () => writeFileSync(socketPath, 'mine'),
    () => mkdirSync(socketPath),
    () => symlinkSync('x', socketPath),
  ];
  for (const place of make) {
    place();
    t.match(await rejection(serve(socketPath)), { code: 'invalid', message: /is not a socket/ });
    rmSync(socketPath, { recursive: true });
  }
});

t.test('a path too long for the kernel works all the same', async (t) => {
  const directory = makeDirectory(t);
  const bytesOf = (name: string) => Buffer.byteLength(path.join(directory, name, 'sock'));
  const fill = limits.socketPathBytesMax - bytesOf('');
  for (const length of [fill - 1, fill, 200]) {
    const name = 'd'.repeat(length);
    const socketPath = path.join(directory, name, 'sock');
    const scene = await openScene(t, { socketPath });
    t.ok(statSync(socketPath).isSocket(), `${bytesOf(name)} bytes`);
    t.equal(modeOf(socketPath), 0o600);
    t.match(await scene.client.advance({ limit: 1 }), { hasMore: true });
    await scene.server.close();
    t.notOk(existsSync(socketPath), 'and is taken away');
    t.match(await rejection(scene.client.advance({ limit: 1 })), { code: 'unavailable' });
  }
});

t.test('a long stale path is replaced, a long living one left alone', async (t) => {
  const directory = path.join(makeDirectory(t), 'd'.repeat(200));
  const socketPath = path.join(directory, 'sock');
  const scene = await openScene(t, { socketPath });
  t.match(await rejection(serve(socketPath)), { code: 'busy' });
  await scene.server.close();
  const here = process.cwd();
  mkdirSync(directory, { recursive: true });
  process.chdir(directory);
  // Bound by a relative name and moved away while it closes, so that its file stays: what a killed holder leaves.
  const dead = createServer().listen('sock');
  await once(dead, 'listening');
  const { renameSync } = await import('node:fs');
  renameSync('sock', 'kept');
  dead.close();
  await once(dead, 'close');
  renameSync('kept', 'sock');
  process.chdir(here);
  const again = await openScene(t, { socketPath });
  t.match(await again.client.advance({ limit: 1 }), { hasMore: true });
});

t.test('no descriptor is left open by clients of a long path', async (t) => {
  const { readdirSync } = await import('node:fs');
  const scene = await openScene(t, { socketPath: path.join(makeDirectory(t), 'd'.repeat(200), 'sock') });
  const client = createSocketClient({ socketPath: scene.socketPath });
  await client.advance({ limit: 1 });
  const count = () => readdirSync('/proc/self/fd').length;
  const before = count();
  for (let index = 0; index < 20; index += 1) {
    await client.advance({ limit: 1 });
  }
  await rejection(createSocketClient({ socketPath: `${scene.socketPath}x` }).advance({ limit: 1 }));
  t.ok(count() <= before + 4, `${count()} after ${before}`);
});
