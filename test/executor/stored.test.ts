// What lies where the attempts are, and is none.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { withStand } from './stand.ts';

t.test('names that no attempt has are passed over, and what only has such a name is no attempt', (t) =>
  withStand(t, {}, async (t, stand) => {
    const { attemptId } = await stand.run({ argv: ['/bin/true'] });
    const attempts = path.dirname(stand.directoryOf(attemptId));
    for (const name of ['.hidden', ' ', 'a b', 'x'.repeat(37), '-n', '签到', 'new\nline', 'lost+found']) {
      mkdirSync(path.join(attempts, name));
    }
    writeFileSync(Buffer.concat([Buffer.from(`${attempts}/`), Buffer.from([0xff, 0xfe])]), '');
    writeFileSync(path.join(attempts, 'a-file'), '');
    symlinkSync('/none/such', path.join(attempts, 'a-link'));
    t.same(stand.executor.stored().sort(), ['a-file', 'a-link', attemptId]);
    for (const name of ['a-file', 'a-link']) {
      t.same(stand.executor.inspect(name, 'boot'), { kind: 'absent' });
      stand.executor.release(name);
    }
    t.same(stand.executor.stored(), [attemptId]);
  }),
);
