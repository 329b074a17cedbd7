import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { findMountObstacle, run, withMount } from '../../edge-evidence/faults/mounts.ts';
import { removeFile } from '../../src/store/remove-file.ts';
import { tryDurability } from '../../src/store/sqlite/probe.ts';

const place = mkdtempSync(join(tmpdir(), 'remove-'));
t.teardown(() => rmSync(place, { recursive: true, force: true }));

t.test('a file is removed, and one that is not there is no error', async (t) => {
  const file = join(place, 'file');
  writeFileSync(file, '');
  removeFile(file);
  t.notOk(existsSync(file));
  removeFile(file);
  t.throws(() => removeFile(place), /unlink/);
});

const skip = findMountObstacle([]) ?? false;
t.test('why it cannot be removed is told, also by a trial of the storage that meets it', { skip }, async (t) => {
  await withMount(place, ['-t', 'tmpfs', 'none'], async (folder) => {
    // As a process of this id that was killed has left it.
    const left = join(folder, `probe-${process.pid}.db`);
    writeFileSync(left, '');
    run('mount', '-o', 'remount,ro', folder);
    t.throws(() => removeFile(left), { code: 'EROFS', syscall: 'unlink' });
    t.match(tryDurability({ data: folder, durability: 'delete-extra' }), {
      name: 'EdgeError',
      code: 'unavailable',
      message: /: EROFS$/,
    });
  });
});
