// Data directories to be troubled: made once by the product's own commands, then copied for each trial, and taken away
// behind it with every process that names them.
import { cpSync, lchownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Mode, Site } from '../operation.ts';
import { findProcessesOf, killProcess } from '../processes.ts';
import { call } from './launch.ts';

/**
 * What a data directory holds: nothing; an installed package; that and two runs that wait to be carried on. `there` is
 * the last, where somebody has put it already.
 */
export type Beginning = 'nothing' | 'installed' | 'queued' | 'there';

/** Runs that wait, by their key. */
export type Runs = ReadonlyMap<string, string>;

export type Ground = {
  readonly bundle: string;
  readonly scratch: string;
  readonly mode: Mode;
  readonly copies: Readonly<Record<'installed' | 'queued', string>>;
  readonly queued: Runs;
};

export type GroundOptions = { readonly bundle: string; readonly scratch: string; readonly mode: Mode };

export const packageName = 'faulty';

// Each command notes that it ran, in a file beside the data directory; one waits until it is let go.
const note = 'echo "$QL_RUN_ID $QL_STEP_KEY" >>"$QL_PACKAGE_DIR/../../../trace"';
const gate = 'while [ ! -e "$QL_PACKAGE_DIR/../../../gate" ]; do sleep 0.05 2>/dev/null || sleep 1; done';
const manifest = {
  schema: 'qinglong/package@v1',
  name: packageName,
  version: '1.0.0',
  tasks: {
    quick: { shell: note },
    held: { shell: `${note}; ${gate}` },
    talks: { shell: `${note}; yes | head -c 60000` },
  },
  workflows: {
    main: { steps: { a: { task: 'quick' }, b: { task: 'quick', needs: ['a'] } } },
    held: { steps: { a: { task: 'held' }, b: { task: 'quick', needs: ['a'] } } },
    wide: {
      steps: {
        a: { task: 'quick' },
        ...Object.fromEntries(['b', 'c', 'd', 'e'].map((key) => [key, { task: 'talks', needs: ['a'] }])),
        f: { task: 'quick', needs: ['b', 'c', 'd', 'e'] },
      },
    },
  },
};

/** Which steps a workflow has: each of them runs once. */
export const stepsOf: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries(manifest.workflows).map(([workflowId, { steps }]) => [workflowId, Object.keys(steps)]),
);

export function writeFaultyPackage(directory: string): string {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'qinglong.json'), JSON.stringify(manifest));
  return directory;
}

/** Throws nothing: what goes wrong here is met again by whoever uses it. */
export async function prepareGround({ bundle, scratch, mode }: GroundOptions): Promise<Ground> {
  const home = mkdtempSync(join(scratch, `ground-${mode}-`));
  const site: Site = { bundle, root: home, data: join(home, 'queued'), run: join(home, 'run'), mode };
  const directory = writeFaultyPackage(join(home, 'package'));
  const copies = { installed: join(home, 'installed'), queued: site.data };
  await call(site, ['package', 'install', directory]);
  cpSync(site.data, copies.installed, { recursive: true });
  const queued = new Map<string, string>();
  for (const key of ['first', 'second']) {
    queued.set(key, (await call(site, ['workflow', 'start', `${packageName}/main`, '--key', key])).out.trim());
  }
  return { bundle, scratch, mode, copies, queued };
}

export type SiteOptions = {
  /** Where the data directory is made; by default in a new folder below the scratch folder. */
  readonly home?: string;
  readonly run?: string;
  /** Who owns the site; null for ourselves. */
  readonly userId?: number | null;
};

/** A site of its own for `work`. Afterwards nobody who names it lives, and it is gone. */
export async function withSite<T>(
  ground: Ground,
  beginning: Beginning,
  work: (site: Site) => Promise<T>,
  options: SiteOptions = {},
): Promise<T> {
  const root = mkdtempSync(join(ground.scratch, 'site-'));
  const home = options.home ?? root;
  const { bundle, mode } = ground;
  const site: Site = { bundle, root, data: join(home, 'data'), run: options.run ?? join(root, 'run'), mode };
  try {
    if (beginning === 'installed' || beginning === 'queued') {
      cpSync(ground.copies[beginning], site.data, { recursive: true });
    }
    writeFaultyPackage(join(root, 'package'));
    giveTo(root, options.userId ?? null);
    return await work(site);
  } finally {
    endProcesses(site);
    rmSync(root, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** The site's own copy of the package. */
export function packageOf({ root }: Site): string {
  return join(root, 'package');
}

function giveTo(folder: string, userId: number | null): void {
  if (userId !== null) {
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    ['', ...names].forEach((name) => void lchownSync(join(folder, name), userId, userId));
  }
}

/** Ends whoever names the site, by id. */
export function endProcesses({ root, data }: Pick<Site, 'root' | 'data'>): void {
  for (const folder of new Set([root, data])) {
    findProcessesOf(folder).forEach(killProcess);
  }
}
