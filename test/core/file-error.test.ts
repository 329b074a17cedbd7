import t from 'tap';
import { fromFileError } from '../../src/core/file-error.ts';

t.test('who only reads is not told to get a right to write, in whatever words it says so', (t) => {
  const denied = Object.assign(new Error('denied'), { code: 'EACCES', syscall: 'open' });
  for (const doing of ['read /srv/d/config.json', 'write out what /srv/d holds']) {
    t.match(fromFileError(denied, { doing, access: 'reads' }), {
      code: 'unavailable',
      message: `cannot ${doing}: EACCES`,
      hint: 'run this as the owner of that directory',
    });
    t.match(fromFileError(denied, { doing, access: 'writes' }), { hint: /right to write there/ });
  }
  t.match(fromFileError(denied, { doing: 'read x', access: 'reads', hint: 'its own remedy' }), {
    hint: 'its own remedy',
  });
  t.end();
});

t.test('what lacks space is helped by space alone', (t) => {
  const full = Object.assign(new Error('full'), { code: 'ENOSPC', syscall: 'write' });
  t.match(fromFileError(full, { doing: 'write x', access: 'writes', hint: 'use another directory' }), {
    code: 'full',
    hint: /free space/,
  });
  t.end();
});
