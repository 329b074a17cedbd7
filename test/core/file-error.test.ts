import t from 'tap';
import { fromFileError } from '../../src/core/file-error.ts';

t.test('who only reads is not told to get a right to write', (t) => {
  const denied = Object.assign(new Error('denied'), { code: 'EACCES', syscall: 'open' });
  const owner = { code: 'unavailable', hint: 'run this as the owner of that directory' };
  t.match(fromFileError(denied, 'look at the data directory /srv/d'), owner);
  t.match(fromFileError(denied, 'read /srv/d/config.json'), owner);
  t.match(fromFileError(denied, 'make the data directory /srv/d'), { hint: /right to write there/ });
  t.match(fromFileError(denied, 'read /srv/d/x', 'its own remedy'), { hint: 'its own remedy' });
  t.end();
});
