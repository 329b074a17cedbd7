// The programs that the launcher needs of the system, and what becomes of an attempt where one is missing: without
// what the pump is made of, commands run and their output is not kept.
import { accessSync, constants } from 'node:fs';
import path from 'node:path';

export type LauncherTools = {
  /** Needed only for tasks that set a variable that a shell takes for its own, such as IFS. */
  readonly envPath: string | null;
  /** Needed only for tasks that say `nice`, and for commands of `env` with an `=` in their path. */
  readonly nicePath: string | null;
  /** Of mkfifo, dd and wc: what is missing. One is enough to do without all. */
  readonly missingForOutput: readonly string[];
};

const outputTools = ['mkfifo', 'dd', 'wc'] as const;

/** What there is in a search path; `doctor` tells the same. */
export function findLauncherTools(searchPath: string): LauncherTools {
  return {
    envPath: findTool('env', searchPath),
    nicePath: findTool('nice', searchPath),
    missingForOutput: outputTools.filter((name) => findTool(name, searchPath) === null),
  };
}

/** The file of that name in a search path, or null. */
export function findTool(name: string, searchPath: string): string | null {
  const isTool = (file: string) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  };
  return (
    searchPath
      .split(':')
      .map((folder) => path.join(folder, name))
      .find(isTool) ?? null
  );
}
