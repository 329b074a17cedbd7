import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { realClock } from '../../../src/runtime/ports.ts';
import { makeDataDirectory } from '../../../src/store/sqlite/data-directory.ts';
import { acquireHolderLock, isHeld, readHolder } from '../../../src/store/sqlite/holder-lock.ts';
import { startChild } from './child.ts';

const clock = realClock();
const identity = { command: 'serve', socket: '/run/here/sock' };

/** Takes the lock, says so, and keeps it until it dies. With a sleeping child of its own, which it names. */
const holderProgram = (data: string) => `
  const { makeDataDirectory } = await sqlite('data-directory.ts');
  const { acquireHolderLock } = await sqlite('holder-lock.ts');
  const { spawn } = await import('node:child_process');
  const clock = { observe: () => ({ wallMs: Date.UTC(2030, 0, 2), uptimeMs: 1, bootId: 'b' }) };
  acquireHolderLock(makeDataDirectory(${JSON.stringify(data)}), { command: 'serve', socket: null }, clock);
  const child = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
  console.log(child.pid);
  process.stdin.resume();`;

t.test('one process holds a directory; the second is told who, and a SIGKILL frees it at once', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  const holder = startChild(t, holderProgram(paths.data));
  const grandchild = Number(await holder.line());
  t.teardown(() => process.kill(grandchild, 'SIGKILL'));
  const acquire = () => acquireHolderLock(paths, identity, clock);
  t.throws(acquire, {
    code: 'busy',
    message: `${paths.data} is held by process ${holder.process.pid} (serve) since 2030-01-02T00:00:00.000Z`,
    hint: new RegExp(`${holder.process.pid}`),
  });
  t.equal(readHolder(paths)?.pid, holder.process.pid);
  holder.process.kill('SIGKILL');
  t.equal((await holder.ended()).signal, 'SIGKILL');
  t.equal(readHolder(paths), null, 'holder.json of a dead process names nobody');
  // The holder's own child still lives: the lock did not pass to it.
  process.kill(grandchild, 0);
  acquire().release();
});

t.test('whether a directory is held is told by the lock alone, and looking leaves everything as it is', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  t.equal(isHeld(paths), false, 'without a lock file');
  const holder = startChild(t, holderProgram(paths.data));
  const grandchild = Number(await holder.line());
  t.teardown(() => process.kill(grandchild, 'SIGKILL'));
  t.equal(isHeld(paths), true);
  rmSync(paths.holder);
  t.equal(isHeld(paths), true, 'also where nobody says so');
  holder.process.kill('SIGKILL');
  await holder.ended();
  writeFileSync(paths.holder, JSON.stringify({ pid: process.pid, socket: null, startedAtMs: 1, command: 'stale' }));
  t.equal(readHolder(paths)?.command, 'stale');
  t.equal(isHeld(paths), false, 'and not where somebody says so who is not it');
  t.equal(statSync(paths.lock).size, 0);

  const lock = acquireHolderLock(paths, identity, clock);
  t.equal(isHeld(paths), true, 'in the process of the holder too');
  const child = startChild(t, holderProgram(paths.data));
  t.match(await child.ended(), { code: 1, errors: /is held by process/ }, 'which has not lost it by looking');
  lock.release();
  t.equal(isHeld(paths), false);
});

t.test('within one process, too, a directory has one holder', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  const lock = acquireHolderLock(paths, identity, clock);
  t.throws(() => acquireHolderLock(paths, identity, clock), {
    code: 'busy',
    message: new RegExp(`process ${process.pid}`),
  });
  // The refusal must not have dropped the lock: another process is refused as well.
  const child = startChild(t, holderProgram(paths.data));
  t.match(await child.ended(), { code: 1, errors: /is held by process/ });
  lock.release();
  acquireHolderLock(paths, identity, clock).release();
});

t.test('starting and ending child processes leaves the lock where it is', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  const lock = acquireHolderLock(paths, identity, clock);
  t.teardown(() => lock.release());
  await once(spawn('true', { stdio: 'inherit' }), 'close');
  const child = startChild(t, holderProgram(paths.data));
  t.match(await child.ended(), { code: 1, errors: /is held by process/ });
});

t.test('holder.json says who holds, for the owner alone, and goes with the lock', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  const lock = acquireHolderLock(paths, identity, clock);
  const holder = JSON.parse(readFileSync(paths.holder, 'utf8'));
  t.match(holder, { pid: process.pid, command: 'serve', socket: '/run/here/sock' });
  t.same(readHolder(paths), holder);
  for (const file of [paths.holder, paths.lock]) {
    t.equal(statSync(file).mode & 0o777, 0o600);
  }
  lock.release();
  t.equal(readHolder(paths), null);
});

t.test('nothing is ever written to the lock file, nor a journal made', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  for (let round = 0; round < 3; round += 1) {
    const lock = acquireHolderLock(paths, identity, clock);
    t.same(readdirSync(paths.data).sort(), ['holder.json', 'lock.db']);
    lock.release();
    t.same(readdirSync(paths.data), ['lock.db']);
  }
  t.equal(statSync(paths.lock).size, 0);
});

t.test('a holder.json that is cut or wrong names nobody, and the lock is taken all the same', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  for (const text of ['', '{"pid":', '[]', '{"pid":-1,"socket":null,"startedAtMs":1,"command":"x"}', '{"pid":1}']) {
    writeFileSync(paths.holder, text);
    t.equal(readHolder(paths), null, text);
  }
  acquireHolderLock(paths, identity, clock).release();
});

t.test('a lock file with something in it is refused with what to do', async (t) => {
  const paths = makeDataDirectory(t.testdir({ 'lock.db': 'not a database '.repeat(100) }));
  t.throws(() => acquireHolderLock(paths, identity, clock), { code: 'damaged', hint: /delete lock\.db/ });
});
