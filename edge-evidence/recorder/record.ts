// One uncut execution of an operation under the shim: what was there before, every call, and what it came to. A site
// that was prepared is kept, so that the same operation can be cut again and again from the same beginning.
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readFacts } from '../facts.ts';
import {
  databaseOf,
  type Ended,
  EvidenceError,
  type Mode,
  type Operation,
  runBundle,
  type Site,
  siteAt,
} from '../operation.ts';
import { waitForProcesses } from '../processes.ts';
import { copyTree } from '../site-copy.ts';
import type { Image } from './disk.ts';
import { readImage, writeImage } from './image.ts';
import { type Call, readRecording } from './recording.ts';
import { shimEnvironment, type Watch } from './shim.ts';

export type Subject = {
  readonly operation: Operation;
  readonly mode: Mode;
  readonly bundle: string;
  /** A folder of this operation and mode alone. */
  readonly scratch: string;
  readonly shim: string;
  /** For the process that is recorded, such as a preload. */
  readonly nodeArgs?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
};

export type Recorded = {
  readonly site: Site;
  /** The site's folder before the operation, the run directory left out. */
  readonly before: Image;
  readonly calls: readonly Call[];
  readonly answer: Ended;
  /** The site's folder after it, as it really is. */
  readonly after: Image;
  /** What its database says then. */
  readonly endFacts: string;
};

/** Where the operation is carried out: always at the same path, which a run directory knows. */
export function siteOf({ scratch, bundle, mode }: Subject): Site {
  return siteAt(join(scratch, 'site'), { bundle, mode });
}

const preparedRoot = ({ scratch }: Subject) => join(scratch, 'prepared');

/** Prepares the site of a subject, once. */
export async function prepareSubject(subject: Subject): Promise<void> {
  const site = siteOf(subject);
  if (!existsSync(preparedRoot(subject))) {
    rmSync(site.root, { recursive: true, force: true });
    mkdirSync(site.root, { recursive: true });
    await subject.operation.prepare(site);
    renameSync(site.root, preparedRoot(subject));
  }
}

/** The site as it was prepared. */
export function restoreSite(subject: Subject): Site {
  const site = siteOf(subject);
  copyTree(preparedRoot(subject), site.root);
  return site;
}

/** The site with the disk of an image. Its run directory is as it was prepared, or gone as after a reboot. */
export function restoreImage(subject: Subject, image: Image, { isRebooted }: { readonly isRebooted: boolean }): Site {
  const site = siteOf(subject);
  writeImage(image, site.root);
  const run = join(preparedRoot(subject), basename(site.run));
  if (!isRebooted && existsSync(run)) {
    copyTree(run, site.run);
  }
  return site;
}

const commandsMsMax = 10_000;

/** Until nobody is left of the commands that a process has started: they come to their own end after a kill, too. */
export async function waitForCommands({ root }: Site): Promise<void> {
  if ((await waitForProcesses(root, commandsMsMax)).length > 0) {
    throw new EvidenceError(`commands of ${root} do not end`);
  }
}

/** What a watched execution of a site is told. */
export function watchOf(subject: Subject, more: Partial<Watch> = {}): Readonly<Record<string, string>> {
  const site = siteOf(subject);
  return shimEnvironment({ shim: subject.shim, root: site.root, skip: site.run, ...more });
}

/** The site's folder as it is, without what means nothing after a reboot. */
export function readSite({ root, run }: Site): Image {
  return readImage(root, (path) => path === basename(run));
}

/** Carries the operation out, uncut, and tells everything about it. Throws where it does not succeed. */
export async function recordSubject(subject: Subject): Promise<Recorded> {
  await prepareSubject(subject);
  const site = restoreSite(subject);
  const before = readSite(site);
  const log = join(subject.scratch, 'calls');
  rmSync(log, { force: true });
  const { nodeArgs = [], env = {} } = subject;
  const options = { nodeArgs, env: { ...env, ...watchOf(subject, { log }) } };
  const answer = await runBundle(site, subject.operation.act(site), options);
  await waitForCommands(site);
  // Before anybody else opens the database.
  const after = readSite(site);
  const trouble = subject.operation.findTrouble(site, answer);
  if (trouble.length > 0) {
    throw new EvidenceError(`${subject.operation.name}, ${subject.mode}, uncut: ${trouble.join('; ')}`);
  }
  return { site, before, calls: readRecording(log), answer, after, endFacts: readFacts(databaseOf(site)) };
}
