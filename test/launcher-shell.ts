// The shell under which the launcher is tested: /bin/sh, or what QL_TEST_SHELL names, which is set by
// `npm test -- --shell 'busybox ash'`. Not a test itself.

/** Null stands for the product's own choice. */
export const launcherShell: readonly string[] | null = process.env['QL_TEST_SHELL']?.split(' ') ?? null;

/** What a runtime in a process of its own needs in its environment to take that shell. */
export const shellEnvironment: Readonly<Record<string, string>> =
  launcherShell === null ? {} : { QINGLONG_EDGE_SHELL: launcherShell.join(' ') };
