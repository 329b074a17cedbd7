// Whether commands that run as another user can get to the files of their package: every directory on the way must let
// them pass. Looks only. What stands below the data directory is opened by the install itself.
import { realpathSync, statSync } from 'node:fs';
import path from 'node:path';

const othersMayPass = 0o001;

/**
 * The topmost directory above a data directory that lets no other user pass; null where none does. Of a path that is
 * not there yet, as far as it is there. Access lists are not read: where they let a user pass, this says too much.
 */
export function findClosedDirectory(data: string): string | null {
  const ancestors = ancestorsOf(data);
  return ancestors.find((directory) => isClosed(directory)) ?? null;
}

/** Outermost first, with links followed. */
function ancestorsOf(data: string): readonly string[] {
  const parent = path.dirname(data);
  let real: string;
  try {
    real = path.dirname(realpathSync(data));
  } catch {
    return parent === data ? [] : [...ancestorsOf(parent), parent];
  }
  const names = real.split('/').filter((name) => name !== '');
  return ['/', ...names.map((_, index) => `/${names.slice(0, index + 1).join('/')}`)];
}

function isClosed(directory: string): boolean {
  try {
    return (statSync(directory).mode & othersMayPass) === 0;
  } catch {
    return false;
  }
}

/** What to do about it. */
export function reachHint(closed: string): string {
  return `${closed} lets no other user pass: chmod o+x ${closed}, or move the data directory`;
}
