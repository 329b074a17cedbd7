// The package of the drill: three workflows whose right ends are known, and how each of its commands ends. No command
// is really run: what the drill is about are the records.
import type { AttemptFacts } from '../../src/core/completion.ts';
import {
  type ManifestTask,
  type ManifestWorkflow,
  type MaterializedRevision,
  materialize,
} from '../../src/core/revision.ts';
import type { RunStatus } from '../../src/core/states.ts';

export const projectId = 'local';
export const packageName = 'drill';

/** Exit codes by task. */
export const taskOutcomes: Readonly<Record<string, number>> = { work: 0, broken: 3 };

/** Steps of each workflow by key: their task, and what they need. */
const shapes: Readonly<Record<string, Readonly<Record<string, readonly [task: string, ...needs: string[]]>>>> = {
  chain: { one: ['work'], two: ['work', 'one'], three: ['work', 'two'] },
  diamond: { bottom: ['work', 'left', 'right'], left: ['work', 'top'], right: ['work', 'top'], top: ['work'] },
  failing: { after: ['work', 'bad'], bad: ['broken', 'first'], first: ['work'] },
};

export const workflowIds = Object.keys(shapes);

/** How a run of each workflow ends, and each of its steps. */
export const rightEnds: Readonly<
  Record<string, { readonly run: RunStatus; readonly steps: Readonly<Record<string, string>> }>
> = {
  chain: { run: 'succeeded', steps: { one: 'succeeded', three: 'succeeded', two: 'succeeded' } },
  diamond: {
    run: 'succeeded',
    steps: { bottom: 'succeeded', left: 'succeeded', right: 'succeeded', top: 'succeeded' },
  },
  failing: { run: 'failed', steps: { after: 'skipped', bad: 'failed', first: 'succeeded' } },
};

/** A step that needs nothing, by workflow: where each begins. */
export const firstSteps: Readonly<Record<string, string>> = { chain: 'one', diamond: 'top', failing: 'first' };

function taskOf(id: string): ManifestTask {
  return {
    id,
    title: null,
    enabled: true,
    argv: ['/bin/sh', '-c', `exit ${taskOutcomes[id]}`],
    env: {},
    cwd: '.',
    timeoutMs: 3_600_000,
    graceMs: 10_000,
    // An attempt that went down with its runtime is tried again, at once.
    retry: { limit: 2, backoffMs: 0, factor: 2, maxMs: 0, on: ['lost'] },
    user: null,
    nice: 0,
    limits: { memoryBytes: null, cpuMs: null, files: null },
  };
}

function workflowOf(id: string): ManifestWorkflow {
  const steps = Object.entries(shapes[id] ?? {}).map(([stepKey, [taskId, ...needs]]) => {
    return { stepKey, title: null, taskId, needs: needs.sort() };
  });
  return {
    id,
    title: null,
    enabled: true,
    timeoutMs: null,
    concurrency: null,
    steps: steps.sort((a, b) => (a.stepKey < b.stepKey ? -1 : 1)),
  };
}

export function drillRevision(): MaterializedRevision {
  const manifest = {
    schema: 'qinglong/package@v1' as const,
    name: packageName,
    version: '1.0.0',
    title: null,
    tasks: Object.keys(taskOutcomes).sort().map(taskOf),
    workflows: workflowIds.map(workflowOf),
  };
  return materialize(manifest, 'd'.repeat(64));
}

/** The end of a command by its exit code. */
export function exitedWith(exitCode: number): AttemptFacts {
  return {
    kind: 'exited',
    exitCode,
    signal: null,
    outputBytes: 0,
    outputTruncated: false,
    finishedAtMs: null,
    durationMs: 20,
    note: null,
    isStopped: false,
  };
}

export const lostWith: AttemptFacts = { kind: 'lost', errorSummary: 'its runtime was killed' };
