// Rules between the steps of one workflow of a manifest: known tasks and needs, no cycle, and a plan that fits.
import { findCycle } from './graph.ts';
import { isResourceId } from './ids.ts';
import { limits } from './limits.ts';
import type { ManifestPath, Notes } from './manifest-notes.ts';
import { didYouMean } from './nearest.ts';

type StepEntry = { readonly id: string; readonly taskId: string; readonly needs: readonly string[] };

/**
 * Notes what is wrong between the steps of a workflow, as they were written: steps that are broken in themselves take
 * part as far as they can be read. `path` is that of the workflow's `steps`.
 */
export function noteStepRules(
  written: Readonly<Record<string, unknown>>,
  context: { readonly path: ManifestPath; readonly notes: Notes; readonly taskIds: ReadonlySet<string> },
): void {
  const { path, notes, taskIds } = context;
  const keys = Object.keys(written).sort().slice(0, limits.stepsMax);
  const steps = keys.map((id) => readEntry(id, written[id]));
  for (const { id, taskId, needs } of steps) {
    if (isResourceId(taskId) && !taskIds.has(taskId)) {
      notes.add([...path, id, 'task'], () => `names ${taskId}, which is no task${didYouMean(taskId, taskIds)}`);
    }
    needs.forEach((need, index) => {
      const at = [...path, id, 'needs', index];
      if (need === id) {
        notes.add(at, `must not name its own step: ${id} -> ${id}`);
      } else if (isResourceId(need) && !Object.hasOwn(written, need)) {
        const others = keys.filter((key) => key !== id);
        notes.add(at, () => `names ${need}, which is no step of this workflow${didYouMean(need, others)}`);
      } else if (isResourceId(need) && needs.indexOf(need) !== index) {
        notes.add(at, `names ${need} twice`);
      }
    });
  }
  for (const cycle of findCycles(steps)) {
    notes.add([...path, cycle[0]!, 'needs'], `form a cycle: ${cycle.join(' -> ')}`);
  }
  const bytes = planBytesBound(steps);
  if (bytes > limits.planBytesMax) {
    notes.add(path, `make a plan of up to ${bytes} bytes, at most ${limits.planBytesMax} are allowed: use fewer needs`);
  }
}

/** What is no text becomes the empty name: its place in the list stays, and no rule between steps looks at it. */
function readEntry(id: string, value: unknown): StepEntry {
  const { task, needs } = (value ?? {}) as { readonly task?: unknown; readonly needs?: unknown };
  const list: readonly unknown[] = Array.isArray(needs) ? needs.slice(0, limits.stepsMax) : [];
  return { id, taskId: asText(task), needs: list.map(asText) };
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/**
 * Cycles that share no step, each as its path in the order in which the steps would have to run, from its smallest key
 * back to it: `[a, b, a]` where b needs a and a needs b. A step that needs itself is not among them.
 */
export function findCycles(steps: readonly StepEntry[]): readonly (readonly string[])[] {
  const cycles: (readonly string[])[] = [];
  let left = steps.map(({ id, needs }) => ({ key: id, needs: needs.filter((need) => need !== id).sort() }));
  for (let found = findCycle(left); found !== null; found = findCycle(left)) {
    const keys = found.slice(1);
    const smallest = keys.indexOf([...keys].sort()[0]!);
    const cycle = [...keys.slice(smallest), ...keys.slice(0, smallest)];
    cycles.push([...cycle, cycle[0]!]);
    left = left.filter(({ key }) => !cycle.includes(key));
  }
  return cycles;
}

// What a plan holds beside ids, in bytes of canonical JSON: its own fields with every id at its longest, and those of
// each step. The names in a need list cost their length, two quotes and a comma.
const planFixedBytes = 1_600;
const planStepFixedBytes = 304;

/** No plan of these steps takes more bytes. */
export function planBytesBound(steps: readonly StepEntry[]): number {
  let bytes = planFixedBytes;
  for (const { id, taskId, needs } of steps) {
    bytes += planStepFixedBytes + id.length + 2 * taskId.length;
    bytes += needs.reduce((sum, need) => sum + need.length + 3, 0);
  }
  return bytes;
}
