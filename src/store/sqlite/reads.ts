// Everything that a protocol may read, by name, on one SQLite connection. Owns the table of names only: what is read
// how stands in the reads-… modules.
import type { DatabaseSync } from 'node:sqlite';
import type { ReadName, Reads } from '../../protocol/reads.ts';
import { createActivityReads } from './reads-activity.ts';
import { createAdmissionReads } from './reads-admission.ts';
import { createIdReads } from './reads-id.ts';
import { createListReads } from './reads-list.ts';
import { createPackageReads } from './reads-package.ts';
import { createPageReads } from './reads-page.ts';
import { createPlanSource } from './reads-plan.ts';
import { createPublisherReads } from './reads-publisher.ts';
import { createRunReads } from './reads-run.ts';
import type { RunMemory } from './run-memory.ts';

export type SqliteReads = { readonly [N in ReadName]: (args: Reads[N]['args']) => Reads[N]['rows'] };

/**
 * The reads of one connection. Each runs in whatever transaction is open, sees its writes, and throws `damaged` for
 * evidence that is missing or altered. Immutable plans and revisions are kept parsed, within the bounds of cache.ts;
 * what a run is now is asked of `memory` first, where there is one.
 */
export function createReads(db: DatabaseSync, memory: RunMemory | null = null): SqliteReads {
  const plans = createPlanSource(db);
  const { findStep, ...runs } = createRunReads(db, plans, memory);
  const { completeStep, ...packages } = createPackageReads(db, memory);
  return {
    ...runs,
    ...packages,
    ...createAdmissionReads(db, plans),
    ...createPageReads(db),
    ...createPublisherReads(db),
    ...createActivityReads(db),
    runs: createListReads(db),
    ...createIdReads(db),
    step(place) {
      const found = findStep(place);
      return found === null ? null : completeStep(found);
    },
  };
}
