// Which file system a path is on, from the kernel's own list. Pure but for reading that list.
import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';

export type Mount = {
  readonly mountPoint: string;
  readonly type: string;
  readonly source: string;
  readonly isReadOnly: boolean;
};

/** The mounts of `/proc/self/mountinfo`, in its order: a later one hides an earlier one at the same place. */
export function parseMounts(text: string): readonly Mount[] {
  return text.split('\n').flatMap((line) => {
    const [left = '', right] = line.split(' - ');
    const fields = left.split(' ');
    const [type = '', source = '', superOptions = ''] = right?.split(' ') ?? [];
    const [mountPoint, options = ''] = [fields[4], fields[5]];
    if (right === undefined || mountPoint === undefined) {
      return [];
    }
    const isReadOnly = [options, superOptions].some((list) => list.split(',').includes('ro'));
    return [{ mountPoint: unescapeField(mountPoint), type, source: unescapeField(source), isReadOnly }];
  });
}

/** Blanks, tabs, line ends and backslashes are written as octal escapes. */
function unescapeField(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/** The mount that holds an absolute path; null where the list names none. */
export function findMount(mounts: readonly Mount[], file: string): Mount | null {
  const holds = ({ mountPoint }: Mount) =>
    mountPoint === '/' || file === mountPoint || file.startsWith(`${mountPoint}/`);
  return mounts
    .filter(holds)
    .reduce<Mount | null>(
      (best, mount) => (best === null || mount.mountPoint.length >= best.mountPoint.length ? mount : best),
      null,
    );
}

/** The mount of a path, or of the nearest directory above it that exists. Null where /proc does not tell. */
export function mountOf(file: string): Mount | null {
  let text: string;
  try {
    text = readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    return null;
  }
  return findMount(parseMounts(text), nearestRealPath(file));
}

export function nearestRealPath(file: string): string {
  for (let at = file; ; at = path.dirname(at)) {
    try {
      return realpathSync(at);
    } catch {
      if (at === path.dirname(at)) {
        return at;
      }
    }
  }
}

const memoryTypes: readonly string[] = ['tmpfs', 'ramfs'];
const networkTypes: readonly string[] = ['nfs', 'nfs4', 'cifs', 'smb3', '9p', 'fuse.sshfs', 'ceph', 'afs'];

export function isMemoryBacked({ type }: Mount): boolean {
  return memoryTypes.includes(type);
}

/** SQLite's locks are not to be relied on there. */
export function isOnNetwork({ type }: Mount): boolean {
  return networkTypes.includes(type);
}
