// Packages that tell which bytes of them ran, and how tests ask the program about them.
import { execFileSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { cli, printed, type Running, readLines, type Site, startCli, writePackage } from './product.ts';

export type Json = Readonly<Record<string, unknown>>;

export async function ask(t: Test, site: Site, args: readonly string[], code = 0): Promise<Json> {
  const ended = await cli(t, site, ...args, '--json');
  t.equal(ended.code, code, `${args.join(' ')}: ${ended.out}${ended.err}`);
  return JSON.parse(ended.out || ended.err) as Json;
}

export function manifest(version: string, task = ''): string {
  return `schema: qinglong/package@v1
name: sample
version: ${version}
tasks: { work: { run: [./scripts/work.sh]${task} } }
workflows: { main: { steps: { one: { task: work }, two: { task: work, needs: [one] } } } }
`;
}

/** Its commands note what they find in the package, each time anew, once the file `go` is there. */
export function writeVersion(site: Site, version: string, task?: string) {
  const trace = join(site.root, 'trace');
  return writePackage(join(site.root, `package-${version}`), {
    'qinglong.yaml': manifest(version, task),
    'scripts/work.sh': `#!/bin/sh
echo begun >>${trace}
while [ ! -e ${join(site.root, 'go')} ]; do sleep 0.05; done
. ./scripts/word.sh
echo "$QL_STEP_KEY $WORD" >>${trace}
`,
    'scripts/word.sh': `WORD=${version}\n`,
  });
}

export const traceOf = (site: Site) => readLines(join(site.root, 'trace')).filter((line) => line !== 'begun');
export const go = (site: Site) => writeFileSync(join(site.root, 'go'), '');
export const installed = (site: Site) => readdirSync(join(site.data, 'packages')).sort();

export function pack(directory: string): string {
  const file = `${directory}.tar.gz`;
  execFileSync('tar', ['-czf', file, '-C', directory, '.']);
  return file;
}

/** A daemon that is up. */
export async function serve(t: Test, site: Site, ...args: readonly string[]) {
  const running = startCli(t, site, ['serve', ...args]);
  await printed(running, ' serves ');
  return running;
}

/** Ends a daemon as a service manager does. */
export async function stop(t: Test, daemon: Running): Promise<void> {
  daemon.process.kill('SIGTERM');
  t.equal((await daemon.ended).code, 0);
}

/** Starts the workflow and waits for its end; its exit code. */
export async function runToEnd(t: Test, site: Site): Promise<number | null> {
  return (await cli(t, site, 'workflow', 'start', 'sample/main', '--wait')).code;
}
