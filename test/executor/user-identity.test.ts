import t from 'tap';
import { environmentOfUser, findUser } from '../../src/executor/user.ts';

const files = {
  passwd: [
    'root:x:0:0:root:/root:/bin/sh',
    'ann:x:1000:100:Ann:/home/ann:/bin/sh',
    'bob:x:1000:101::/home/bob:',
    '1001:x:2000:2000::/home/number:',
    'homeless:x:1002:100:::',
    'damaged:x:abc:100::/:',
    'short:x:1003',
  ].join('\n'),
  group: ['users:x:100:', 'tty:x:5:ann,bob', 'audio:x:29:ann', 'odd:x:no:ann', 'anna:x:30:anna', 'own:x:100:ann'].join(
    '\n',
  ),
};

t.test('a user has the numbers of its own line, and every group that names it, once', async (t) => {
  t.same(findUser('ann', files), { name: 'ann', uid: 1000, gid: 100, groupIds: [5, 29, 100], home: '/home/ann' });
  t.same(findUser('bob', files)?.groupIds, [5, 101]);
  t.same(findUser('root', files), { name: 'root', uid: 0, gid: 0, groupIds: [0], home: '/root' });
  t.equal(findUser('homeless', files)?.home, '/');
});

t.test(
  'a number is a name first, then the first line with it, then a number alone in a group without rights',
  async (t) => {
    t.match(findUser('1001', files), { name: '1001', uid: 2000 });
    t.match(findUser('1000', files), { name: 'ann', gid: 100 });
    const bare = findUser('4242', files)!;
    t.same(bare, { name: null, uid: 4242, gid: 65_534, groupIds: [65_534], home: '/' });
    t.same(environmentOfUser(bare), { HOME: '/', USER: '4242', LOGNAME: '4242' });
  },
);

t.test('what is on no whole line is nobody', async (t) => {
  for (const name of ['none', 'damaged', 'short', '', 'x', '-1', '1e3', 'ann:x', 'Ann']) {
    t.equal(findUser(name, files), null, name);
  }
  t.equal(findUser('ann', { passwd: '', group: '' }), null);
});
