// Sites of the shipped bundle for tests of the evidence: in the test's own folder, ended and removed with it.
import { join } from 'node:path';
import type { Test } from 'tap';
import { type Mode, type Operation, runBundle, type Site, siteAt } from '../../edge-evidence/operation.ts';
import { operations } from '../../edge-evidence/operations/all.ts';
import { clearFolder } from '../../edge-evidence/site-copy.ts';

export const bundleFile = join(import.meta.dirname, '../../dist/qinglong-edge.cjs');

export function makeEvidenceSite(t: Test, mode: Mode, name = 'site'): Site {
  const root = join(t.testdir({ [name]: {} }), name);
  t.teardown(() => clearFolder(root));
  return siteAt(root, { bundle: bundleFile, mode });
}

export function operationOf(name: string): Operation {
  return operations.find((operation) => operation.name === name)!;
}

/** Prepares an operation and carries it out; answers what was wrong with it. */
export async function carryOut(site: Site, operation: Operation): Promise<readonly string[]> {
  await operation.prepare(site);
  return operation.findTrouble(site, await runBundle(site, operation.act(site)));
}
