// What comes between a start that was asked for and its launcher: looks at the command, at whom it runs as and at the
// tools for that, and writes the launcher's work. All of it may be done again, and nothing of it has run anything of
// the command.
import { type CommandLimits, findMissingTool, type UserPrefix } from './command-file.ts';
import { type LauncherSettings, writeCommand } from './launch.ts';
import { preflight, type SpawnFailure, spawnFailed } from './preflight.ts';
import { environmentOfUser, findUser, readUserFiles } from './user.ts';
import { findUserPrefix } from './user-prefix.ts';

export type CommandSpec = {
  readonly attemptId: string;
  readonly argv: readonly string[];
  /** All of it: the command's environment has nothing else. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute. */
  readonly cwd: string;
  readonly nice: number | null;
  readonly limits: CommandLimits | null;
  /**
   * A name or number of this machine; null: as this process. Of HOME, USER and LOGNAME, `env` then gets what it does
   * not have.
   */
  readonly user: string | null;
};

type CommandUser = {
  readonly name: string;
  /** Null: this process is that user. */
  readonly prefix: UserPrefix | null;
  readonly variables: Readonly<Record<string, string>>;
};

/**
 * Returns what is to be called before each launch: null when the work is written, else why there is none. Throws what
 * the file system throws, a shortage above all.
 */
export function createPreparation(
  settings: LauncherSettings,
): (spec: CommandSpec, directory: string) => SpawnFailure | null {
  const { envPath, nicePath } = settings.tools;
  const mask = process.umask().toString(8).padStart(4, '0');
  const findCommandUser = createUserSearch(settings.toolsPath);
  return (spec, directory) => {
    const user = spec.user === null ? null : findCommandUser(spec.user);
    if (user !== null && 'kind' in user) {
      return user;
    }
    const env = { ...user?.variables, ...spec.env };
    const outcome = preflight({ argv: spec.argv, env, cwd: spec.cwd, arch: process.arch });
    if (outcome.kind !== 'ready') {
      return outcome;
    }
    const input = { ...spec, argv: outcome.argv, env, user, mask, envPath, nicePath };
    const missing = findMissingTool(input);
    if (missing !== null) {
      const what = `there is no \`${missing}\` in ${settings.toolsPath}, which this command needs`;
      return spawnFailed('tool_missing', what);
    }
    writeCommand(directory, input);
    return null;
  };
}

/** Looks a user up each time, for that is cheap, and tries the tools once for each. */
function createUserSearch(toolsPath: string): (user: string) => CommandUser | SpawnFailure {
  const prefixes = new Map<string, UserPrefix>();
  return (name) => {
    const user = findUser(name, readUserFiles());
    if (user === null) {
      return spawnFailed('user_unknown', `this machine has no user \`${name}\``);
    }
    const variables = environmentOfUser(user);
    const ownUid = process.getuid?.() ?? -1;
    if (user.uid === ownUid) {
      return { name, prefix: null, variables };
    }
    if (ownUid !== 0) {
      return spawnFailed(
        'user_not_permitted',
        `only root can run a command as \`${name}\`, and this is user ${ownUid}`,
      );
    }
    const key = JSON.stringify(user);
    const prefix = prefixes.get(key) ?? findUserPrefix(user, toolsPath);
    if ('kind' in prefix) {
      return prefix;
    }
    prefixes.set(key, prefix);
    return { name, prefix, variables };
  };
}
