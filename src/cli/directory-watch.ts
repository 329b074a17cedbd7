// Told by the kernel of changes in a directory (inotify): no polling, and no system call while nothing changes.
import { statSync, watch } from 'node:fs';

export type DirectoryWatch = {
  /** Whether another directory is there by that name now, or none: then nothing is told any more. */
  isStale(): boolean;
  stop(): void;
};

/**
 * Calls `onChange` after changes, with whether names came or went (and not only contents changed) and the name, where
 * the kernel says it. `missing` where there is no directory; `refused` where the system has no watch left to give.
 */
export function watchDirectory(
  directory: string,
  onChange: (change: { readonly isName: boolean; readonly name: string | null }) => void,
): DirectoryWatch | 'missing' | 'refused' {
  try {
    const { ino } = statSync(directory);
    const watcher = watch(directory, (type, name) => onChange({ isName: type === 'rename', name }));
    // It went away: `isStale` says so.
    watcher.on('error', () => onChange({ isName: true, name: null }));
    return {
      isStale: () => statSync(directory, { throwIfNoEntry: false })?.ino !== ino,
      stop: () => watcher.close(),
    };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'refused';
  }
}
