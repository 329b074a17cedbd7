import { appendFileSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { watchDirectory } from '../../src/cli/directory-watch.ts';

t.test('names that come and contents that change are told, and who went away is stale', async (t) => {
  const directory = path.join(t.testdir(), 'watched');
  t.equal(
    watchDirectory(directory, () => {}),
    'missing',
  );
  mkdirSync(directory);
  const changes: { readonly isName: boolean; readonly name: string | null }[] = [];
  let told = Promise.withResolvers<void>();
  const watched = watchDirectory(directory, (change) => {
    changes.push(change);
    told.resolve();
  });
  if (typeof watched === 'string') {
    t.fail('it is watched');
    return;
  }
  writeFileSync(path.join(directory, 'one'), '');
  await told.promise;
  t.match(changes[0], { isName: true, name: 'one' });
  t.notOk(watched.isStale());
  changes.length = 0;
  told = Promise.withResolvers();
  appendFileSync(path.join(directory, 'one'), 'more');
  await told.promise;
  t.match(changes.at(-1), { isName: false, name: 'one' });
  renameSync(directory, `${directory}-gone`);
  t.ok(watched.isStale());
  mkdirSync(directory);
  t.ok(watched.isStale(), 'another one by its name is not it');
  watched.stop();
});
