// Paths inside a package: relative, with `/`, without `.` and `..`. They never name anything outside of it.

/**
 * The path in its one form, `.` for the package itself; null for an absolute path and for one that leaves the package.
 * Textual, which is exact here: a package holds no links.
 */
export function normalizePackagePath(path: string): string | null {
  if (path === '' || path.startsWith('/')) {
    return null;
  }
  const names: string[] = [];
  for (const name of path.split('/')) {
    if (name === '..') {
      if (names.pop() === undefined) {
        return null;
      }
    } else if (name !== '' && name !== '.') {
      names.push(name);
    }
  }
  return names.length === 0 ? '.' : names.join('/');
}

/**
 * The file inside the package that a task's command names, seen from its working directory, as the kernel sees it.
 * `outside` for one that leaves the package; null for one that the package does not hold: absolute, or looked up in
 * PATH because it has no slash.
 */
export function commandFile(command: string, cwd: string): { readonly path: string } | 'outside' | null {
  if (command.startsWith('/') || !command.includes('/')) {
    return null;
  }
  const path = normalizePackagePath(`${cwd}/${command}`);
  return path === null ? 'outside' : { path };
}
