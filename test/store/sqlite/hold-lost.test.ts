// A holder whose lock or database was taken from under it writes nothing any more.
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { startChild } from './child.ts';
import { addNote, hasNote, openToyStore } from './toy-store.ts';

for (const profile of ['edge', 'standalone'] as const) {
  for (const file of ['lock.db', 'qinglong.db']) {
    t.test(`${profile}: ${file} is removed under its holder: nothing more is written, and that is told`, async (t) => {
      const data = t.testdir();
      const toy = openToyStore({ data, profile });
      t.equal(await toy.store.submit(addNote({ id: 'a' })), 'added');
      rmSync(path.join(data, file));
      const refused = { code: 'unavailable', message: /was removed or replaced/ };
      await t.rejects(toy.store.submit(addNote({ id: 'b' })), refused);
      t.match(toy.reported.closedForGood, [refused]);
      t.equal(toy.commits.length, 1);
      await t.rejects(toy.store.submit(addNote({ id: 'c' })), { code: 'unavailable' });
      await toy.store.close();
    });

    t.test(`${profile}: ${file} is replaced under its holder: the same`, async (t) => {
      const data = t.testdir();
      const toy = openToyStore({ data, profile });
      t.equal(await toy.store.submit(addNote({ id: 'a' })), 'added');
      const place = path.join(data, file);
      // By name alone: opened here, the holder's own locks would go.
      renameSync(place, `${place}.old`);
      writeFileSync(place, '');
      await t.rejects(toy.store.submit(addNote({ id: 'b' })), { code: 'unavailable' });
      await toy.store.close();
    });
  }
}

t.test('after another process took the place, the first one stops and leaves holder.json to it', async (t) => {
  const data = t.testdir();
  const toy = openToyStore({ data });
  t.equal(await toy.store.submit(addNote({ id: 'a' })), 'added');
  rmSync(path.join(data, 'lock.db'));
  const other = startChild(
    t,
    `
    const { addNote, openToyStore } = await toy();
    const { store } = openToyStore({ data: ${JSON.stringify(data)} });
    console.log(await store.submit(addNote({ id: 'other' })));
    process.stdin.once('data', async () => {
      await store.close();
      console.log('closed');
      process.stdin.pause();
    });`,
  );
  t.equal(await other.line(), 'added');
  t.equal(await toy.store.read(hasNote('other')), true, 'reading does no harm');
  await t.rejects(toy.store.submit(addNote({ id: 'b' })), { code: 'unavailable' });
  await toy.store.close();
  const holder = JSON.parse(readFileSync(path.join(data, 'holder.json'), 'utf8')) as { readonly pid: number };
  t.equal(holder.pid, other.process.pid);
  other.process.stdin?.write('\n');
  t.equal(await other.line(), 'closed');
  t.notOk(existsSync(path.join(data, 'holder.json')));
});
