import t from 'tap';
import { findMount, isMemoryBacked, mountOf, parseMounts } from '../../src/cli/mounts.ts';

// As an OpenWrt router shows it, with one odd name.
const text = `17 1 0:16 / /rom ro,relatime - squashfs /dev/root ro
18 17 0:17 / / rw,noatime - overlay overlayfs:/overlay rw,lowerdir=/,upperdir=/overlay/upper
20 18 0:18 / /tmp rw,nosuid,nodev,noatime shared:1 - tmpfs tmpfs rw
21 18 179:1 / /mnt/usb\\040disk rw,relatime - ext4 /dev/sda1 ro
22 18 0:19 / /mnt/usb rw - nfs4 nas:/export rw
`;

t.test('the longest mount point that holds a path is its mount', async (t) => {
  const mounts = parseMounts(text);
  t.equal(findMount(mounts, '/etc/config')?.type, 'overlay');
  t.equal(findMount(mounts, '/tmp')?.type, 'tmpfs');
  t.equal(findMount(mounts, '/tmp/run/x')?.type, 'tmpfs');
  t.equal(findMount(mounts, '/tmpfile')?.type, 'overlay');
  t.equal(findMount(mounts, '/mnt/usb/data')?.type, 'nfs4');
  t.equal(findMount([], '/x'), null);
});

t.test('escapes in names are undone, and either list of options makes a mount read-only', async (t) => {
  const mount = findMount(parseMounts(text), '/mnt/usb disk/data');
  t.match(mount, { mountPoint: '/mnt/usb disk', source: '/dev/sda1', isReadOnly: true });
  t.equal(findMount(parseMounts(text), '/rom/x')?.isReadOnly, true);
  t.equal(findMount(parseMounts(text), '/tmp')?.isReadOnly, false);
});

t.test('of two mounts at one place the later one counts', async (t) => {
  const twice = parseMounts('1 0 0:1 / /a rw - ext4 /dev/a rw\n2 0 0:2 / /a rw - tmpfs tmpfs rw\n');
  t.ok(isMemoryBacked(findMount(twice, '/a/b')!));
});

t.test('this machine tells where a path is that does not exist yet', async (t) => {
  t.not(mountOf(`${t.testdir({})}/not/there`), null);
});
