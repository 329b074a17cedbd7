// Runs the command line from its source as users run it: real processes, a data and a run directory of the test's own.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Test } from 'tap';
import type { RunInspection } from '../../src/runtime/inspection.ts';
import { type Ended, type Running, type Site, startProgram, writePackage } from '../program.ts';

export { createSite, type Ended, printed, type Running, type Site, writePackage } from '../program.ts';

// Stripping the types of the whole source takes three times as long as all that a short command does.
const compileCache = mkdtempSync(join(tmpdir(), 'qinglong-compiled-'));
process.once('exit', () => rmSync(compileCache, { recursive: true, force: true }));

const file = resolve(import.meta.dirname, '../../src/cli/main.ts');

/** How the program names itself, as it is called here. */
export function nameOf(): string {
  return `${process.execPath} ${file}`;
}

/** How what a command says to do next begins. */
export function selfOf(site: Site): string {
  return `${nameOf()} --data ${site.data}`;
}

/** Starts the command line; a process that outlives its test is killed. */
export function start(t: Test, site: Site, args: readonly string[], input: string | null = null): Running {
  return startProgram(t, site, args, { file, env: { NODE_COMPILE_CACHE: compileCache }, input: input ?? '' });
}

export function call(t: Test, site: Site, ...args: readonly string[]): Promise<Ended> {
  return start(t, site, args).ended;
}

/** What a command prints with `--json`; fails the test where it does not end with 0. */
export async function ask<T>(t: Test, site: Site, ...args: readonly string[]): Promise<T> {
  const { code, out, err } = await call(t, site, ...args, '--json');
  t.equal(code, 0, `${args.join(' ')}: ${err}`);
  return JSON.parse(out) as T;
}

export type Refused = { readonly error: { readonly code: string; readonly message: string; readonly hint: string } };

export async function newestRun(t: Test, site: Site): Promise<RunInspection> {
  const { runs } = await ask<{ readonly runs: readonly { readonly id: string }[] }>(t, site, 'runs', 'list');
  return await ask<RunInspection>(t, site, 'runs', 'show', runs[0]!.id);
}

export type Task = {
  readonly shell: string;
  /** More fields of the task, as YAML. */
  readonly more?: string;
  readonly needs?: readonly string[];
};

/** A package of one workflow `main`, whose every step has a task of its own. */
export function writeSteps(site: Site, name: string, steps: Readonly<Record<string, Task>>, workflow = ''): string {
  const tasks = Object.entries(steps).map(
    ([key, { shell, more = '' }]) => `  ${key}: { shell: ${JSON.stringify(shell)}${more === '' ? '' : `, ${more}`} }`,
  );
  const places = Object.entries(steps).map(
    ([key, { needs = [] }]) => `      ${key}: { task: ${key}, needs: [${needs.join(', ')}] }`,
  );
  return writePackage(join(site.root, name), {
    'qinglong.yaml': [
      'schema: qinglong/package@v1',
      `name: ${name}`,
      'version: 1.0.0',
      'tasks:',
      ...tasks,
      'workflows:',
      '  main:',
      ...(workflow === '' ? [] : [`    ${workflow}`]),
      '    steps:',
      ...places,
      '',
    ].join('\n'),
  });
}

/** Says something, then waits until it is stopped; ends by itself where nobody does. */
export const waits = 'echo waiting; exec sleep 30';
