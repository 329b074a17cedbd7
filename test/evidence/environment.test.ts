import { tmpdir } from 'node:os';
import t from 'tap';
import { findFileSystem, readEnvironment } from '../../edge-evidence/environment.ts';

const mounts = `22 1 0:1 / / rw,relatime - overlay overlayfs:/overlay rw,lowerdir=/rom,upperdir=/overlay/upper,xino=off
23 22 0:2 / /tmp rw,nosuid - tmpfs tmpfs rw,size=1024k
24 22 31:6 / /overlay rw,noatime - jffs2 /dev/mtdblock6 rw,compr=none
25 22 8:1 / /mnt/my\\040disk rw - ext4 /dev/sda1 rw,data=ordered
26 25 8:2 / /mnt/my\\040disk ro - f2fs /dev/sda2 ro
`;

t.test(
  'a path is on the file system of the longest mount point above it, the latest one where two are there',
  async (t) => {
    const typeOf = (path: string) => findFileSystem(path, mounts).type;
    t.equal(typeOf('/srv/data'), 'overlay');
    t.equal(typeOf('/tmp'), 'tmpfs');
    t.equal(typeOf('/tmp/scratch'), 'tmpfs');
    t.equal(typeOf('/tmpfile'), 'overlay');
    t.equal(typeOf('/overlay/upper'), 'jffs2');
    t.equal(typeOf('/mnt/my disk/x'), 'f2fs');
    t.same(findFileSystem('/overlay/x', mounts).mountOptions, ['rw', 'noatime', 'compr=none']);
    t.equal(findFileSystem('/x', '').type, 'unknown');
  },
);

t.test('options of a mount that hold a path of the machine stay with it', async (t) => {
  t.same(findFileSystem('/srv', mounts).mountOptions, ['rw', 'relatime', 'xino=off']);
});

t.test('this machine has everything that a report says of one', async (t) => {
  const environment = readEnvironment(tmpdir());
  t.match(environment, {
    node: process.versions.node,
    sqlite: process.versions['sqlite'],
    kernel: /^Linux \d/,
    libc: /^(glibc \d|musl)/,
    cpu: { count: Number },
    memoryKib: Number,
  });
  t.ok(environment.sqliteOptions.length > 10);
  t.not(environment.fileSystem.type, 'unknown');
});
