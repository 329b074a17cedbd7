// What comes between a start that was asked for and its launcher: looks at the command, at whom it runs as and at the
// tools for that, and writes the launcher's work. All of it may be done again, and nothing of it has run anything of
// the command.
import type { UserPrefix } from './command-file.ts';
import type { CommandSpec } from './executor.ts';
import { type LauncherSettings, writeCommand } from './launch.ts';
import { preflight, type SpawnFailure, spawnFailed } from './preflight.ts';
import { environmentOfUser, findUser, readUserFiles } from './user.ts';
import { findUserPrefix } from './user-prefix.ts';

type CommandUser = {
  readonly name: string;
  readonly prefix: UserPrefix;
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
    if (envPath === null) {
      return toolMissing('env', settings, 'every command');
    }
    const user = spec.user === null ? null : findCommandUser(spec.user);
    if (user !== null && 'kind' in user) {
      return user;
    }
    const env = { ...user?.variables, ...spec.env };
    const outcome = preflight({ argv: spec.argv, env, cwd: spec.cwd, arch: process.arch });
    if (outcome.kind !== 'ready') {
      return outcome;
    }
    const needsNice = spec.nice !== null || outcome.argv[0]?.includes('=') === true;
    if (needsNice && nicePath === null) {
      return toolMissing('nice', settings, 'this command');
    }
    writeCommand(directory, { ...spec, argv: outcome.argv, env, user, mask, envPath, nicePath });
    return null;
  };
}

function toolMissing(name: string, { toolsPath }: LauncherSettings, who: string): SpawnFailure {
  return spawnFailed('tool_missing', `there is no \`${name}\` in ${toolsPath}, which ${who} needs`);
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
      return { name, prefix: (words) => [...words], variables };
    }
    if (ownUid !== 0) {
      return spawnFailed(
        'user_not_permitted',
        `only root can run a command as \`${name}\`, and this is user ${ownUid}`,
      );
    }
    const key = JSON.stringify(user);
    const prefix = prefixes.get(key) ?? findUserPrefix(user, toolsPath);
    if (typeof prefix !== 'function') {
      return prefix;
    }
    prefixes.set(key, prefix);
    return { name, prefix, variables };
  };
}
