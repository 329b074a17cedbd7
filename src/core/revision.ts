// The materialized revision: the immutable, normalized resources of one generation of a package, with their digests.
// Owns its exact form, and the lock digest of a package's bytes. A task's source digest and a workflow's definition
// digest cover every other field of that task or workflow; the revision's own digest covers all.
import { canonicalJson, utf8Bytes } from './canonical-json.ts';
import { digest } from './digest.ts';
import { assert, EdgeError, type ErrorCode, type Mistake } from './errors.ts';
import { findCycle } from './graph.ts';
import { limits } from './limits.ts';
import {
  argumentRule,
  commandRule,
  cwdRule,
  environmentEntryRule,
  environmentNameRule,
  type Rule,
  settingNameRule,
  settingVariableRule,
  titleRule,
  userRule,
  versionRule,
} from './manifest-rules.ts';
import { normalizePackagePath } from './package-path.ts';
import {
  boolean,
  digestText,
  integer,
  list,
  normalize,
  nullable,
  object,
  oneOf,
  packageName,
  type Read,
  type Reader,
  resourceId,
} from './shape.ts';

export const revisionSchema = 'qinglong/materialized-revision@v1';
export const revisionLabels = {
  lock: 'qinglong/package-lock@v1',
  task: 'qinglong/task-source@v1',
  workflow: 'qinglong/workflow-definition@v1',
  revision: revisionSchema,
} as const;

/** Ends of an attempt after which a step may be tried again. Sorted: the revision holds them in this order. */
export const retryCauses = ['failed', 'lost', 'timed_out'] as const;

/** A regular file of a package. `mode` is 0o700 for one that can be executed, else 0o600; `path` has `/`, no `..`. */
export type PackageFile = {
  readonly path: string;
  readonly mode: number;
  readonly size: number;
  readonly sha256: string;
};

/** Text, or a setting whose value the device gives; without a value and a default an attempt fails. */
export type VariableValue = string | { readonly setting: string; readonly default: string | null };

const taskReaders = {
  id: resourceId,
  title: nullable(obeying(titleRule)),
  enabled: boolean,
  argv: list(obeying(argumentRule), { min: 1, max: limits.argumentsMax }),
  env: environment,
  cwd: obeying((cwd) => cwdRule(cwd) ?? (normalizePackagePath(cwd) === cwd ? null : 'must be in its shortest form')),
  timeoutMs: integer(1, limits.durationMsMax),
  graceMs: integer(0, limits.durationMsMax),
  retry: object({
    limit: integer(0, limits.retryLimitMax),
    backoffMs: integer(0, limits.durationMsMax),
    factor: integer(1, limits.retryFactorMax),
    maxMs: integer(0, limits.durationMsMax),
    on: list(oneOf(retryCauses), { min: 1, max: retryCauses.length }),
  }),
  user: nullable(obeying(userRule)),
  nice: integer(limits.niceMin, limits.niceMax),
  limits: object({
    memoryBytes: nullable(integer(limits.memoryLimitBytesMin, Number.MAX_SAFE_INTEGER)),
    cpuMs: nullable(integer(1_000, limits.durationMsMax)),
    files: nullable(integer(limits.openFilesMin, limits.openFilesMax)),
  }),
} as const;

const stepReader = object({
  stepKey: resourceId,
  title: nullable(obeying(titleRule)),
  taskId: resourceId,
  needs: list(resourceId, { min: 0, max: limits.stepsMax }),
});

const workflowReaders = {
  id: resourceId,
  title: nullable(obeying(titleRule)),
  enabled: boolean,
  timeoutMs: nullable(integer(1, limits.durationMsMax)),
  concurrency: nullable(integer(1, limits.concurrencyMax)),
  steps: list(stepReader, { min: 1, max: limits.stepsMax }),
} as const;

const taskReader = object({ ...taskReaders, sourceDigest: digestText });
const workflowReader = object({ ...workflowReaders, definitionDigest: digestText });
const revisionReader = object({
  schema: oneOf([revisionSchema]),
  packageName,
  version: obeying(versionRule),
  title: nullable(obeying(titleRule)),
  lockDigest: digestText,
  tasks: list(taskReader, { min: 1, max: limits.tasksMax }),
  workflows: list(workflowReader, { min: 0, max: limits.workflowsMax }),
  digest: digestText,
});

/** A task with every default filled in: what is executed, apart from the bytes of the package. */
export type MaterializedTask = Read<typeof taskReader>;
export type MaterializedWorkflow = Read<typeof workflowReader>;
export type MaterializedRevision = Read<typeof revisionReader>;

export type ManifestTask = Omit<MaterializedTask, 'sourceDigest'>;
export type ManifestWorkflow = Omit<MaterializedWorkflow, 'definitionDigest'>;

/** A manifest in its normalized form: everything sorted by id, defaults filled in, times in milliseconds. */
export type Manifest = {
  readonly schema: 'qinglong/package@v1';
  readonly name: string;
  readonly version: string;
  readonly title: string | null;
  readonly tasks: readonly ManifestTask[];
  readonly workflows: readonly ManifestWorkflow[];
};

/** Digest of exactly these bytes under these names; the order of `files` does not matter. */
export function computeLockDigest(files: readonly PackageFile[]): string {
  const sorted = listExactly(files);
  const isUnique = sorted.every((file, index) => index === 0 || sorted[index - 1]!.path !== file.path);
  assert(isUnique, 'a package holds each path once');
  return digest(revisionLabels.lock, sorted);
}

/** The files as a lock digest has them: sorted by path, with exactly these four fields. */
export function listExactly(files: readonly PackageFile[]): readonly PackageFile[] {
  const sorted = [...files].sort((left, right) => (left.path < right.path ? -1 : 1));
  return sorted.map(({ path, mode, size, sha256 }) => ({ path, mode, size, sha256 }));
}

/** The digest that a task must carry for its contents. */
export function taskSourceDigest(task: Omit<MaterializedTask, 'sourceDigest'>): string {
  return digest(revisionLabels.task, task);
}

/** The digest that a workflow must carry for its contents: its own definition, not that of the tasks it uses. */
export function workflowDefinitionDigest(workflow: Omit<MaterializedWorkflow, 'definitionDigest'>): string {
  return digest(revisionLabels.workflow, workflow);
}

/** The revision of a manifest and the bytes beside it. Throws `invalid` for one too large to be stored. */
export function materialize(manifest: Manifest, lockDigest: string): MaterializedRevision {
  const contents = {
    schema: revisionSchema,
    packageName: manifest.name,
    version: manifest.version,
    title: manifest.title,
    lockDigest,
    tasks: manifest.tasks.map((task) => ({ ...task, sourceDigest: taskSourceDigest(task) })),
    workflows: manifest.workflows.map((workflow) => ({
      ...workflow,
      definitionDigest: workflowDefinitionDigest(workflow),
    })),
  };
  return normalizeRevision({ ...contents, digest: digest(revisionLabels.revision, contents) });
}

/**
 * A revision in its one exact form, everything checked and every digest recomputed. Throws an error of this `code`
 * with every mistake: give `damaged` for one that was read back from the database.
 */
export function normalizeRevision(value: unknown, code: ErrorCode = 'invalid'): MaterializedRevision {
  const subject = { what: 'materialized revision', code };
  const revision = normalize(revisionReader, value, subject);
  const mistakes = [
    ...sortedMistakes(
      'tasks',
      revision.tasks.map(({ id }) => id),
    ),
    ...sortedMistakes(
      'workflows',
      revision.workflows.map(({ id }) => id),
    ),
    ...revision.tasks.flatMap((task, index) => taskMistakes(task, `tasks[${index}]`)),
    ...revision.workflows.flatMap((workflow, index) => workflowMistakes(revision, workflow, `workflows[${index}]`)),
    ...wholeMistakes(revision),
  ];
  if (mistakes.length > 0) {
    throw new EdgeError(code, `${subject.what}: ${mistakes[0]!.path} ${mistakes[0]!.rule}`, {
      hint: code === 'damaged' ? 'run `verify` and look at `doctor`' : 'correct the package and install it again',
      mistakes,
    });
  }
  return revision;
}

function taskMistakes(task: MaterializedTask, path: string): readonly Mistake[] {
  const { sourceDigest, ...contents } = task;
  const broken = commandRule({ command: task.argv[0]!, cwd: task.cwd });
  return [
    ...(broken === null ? [] : [mistake(`${path}.argv[0]`, broken)]),
    ...sortedMistakes(`${path}.retry.on`, task.retry.on),
    ...unless(task.retry.maxMs >= task.retry.backoffMs, `${path}.retry.maxMs`, 'must not be below backoffMs'),
    ...unless((task.limits.cpuMs ?? 0) % 1_000 === 0, `${path}.limits.cpuMs`, 'must be whole seconds'),
    ...unless(sourceDigest === taskSourceDigest(contents), `${path}.sourceDigest`, 'is not the digest of this task'),
  ];
}

function workflowMistakes(
  revision: MaterializedRevision,
  workflow: MaterializedWorkflow,
  path: string,
): readonly Mistake[] {
  const { definitionDigest, ...contents } = workflow;
  const computed = workflowDefinitionDigest(contents);
  const taskIds = new Set(revision.tasks.map(({ id }) => id));
  const keys = new Set(workflow.steps.map(({ stepKey }) => stepKey));
  const cycle = findCycle(workflow.steps.map(({ stepKey, needs }) => ({ key: stepKey, needs })));
  return [
    ...sortedMistakes(
      `${path}.steps`,
      workflow.steps.map(({ stepKey }) => stepKey),
    ),
    ...workflow.steps.flatMap(({ taskId, needs }, index) => [
      ...unless(taskIds.has(taskId), `${path}.steps[${index}].taskId`, `names ${taskId}, which is no task`),
      ...unless(
        needs.every((need) => keys.has(need)),
        `${path}.steps[${index}].needs`,
        'must name steps',
      ),
      ...sortedMistakes(`${path}.steps[${index}].needs`, needs),
    ]),
    ...unless(cycle === null, `${path}.steps`, `form a cycle: ${(cycle ?? []).join(' -> ')}`),
    ...unless(definitionDigest === computed, `${path}.definitionDigest`, 'is not the digest of this workflow'),
  ];
}

function wholeMistakes(revision: MaterializedRevision): readonly Mistake[] {
  const { digest: stored, ...contents } = revision;
  const bytes = utf8Bytes(canonicalJson(revision));
  return [
    ...unless(stored === digest(revisionLabels.revision, contents), 'digest', 'is not the digest of this revision'),
    ...unless(
      bytes <= limits.revisionBytesMax,
      '',
      `the whole package description takes ${bytes} bytes, at most ${limits.revisionBytesMax} are allowed`,
    ),
  ];
}

function sortedMistakes(path: string, names: readonly string[]): readonly Mistake[] {
  const at = names.findIndex((name, index) => index > 0 && names[index - 1]! >= name);
  return unless(at < 0, `${path}[${at}]`, 'must be unique and sorted');
}

function unless(holds: boolean, path: string, rule: string): readonly Mistake[] {
  return holds ? [] : [mistake(path, rule)];
}

function mistake(path: string, rule: string): Mistake {
  return { file: null, path, line: null, rule };
}

function obeying(rule: Rule<string>): Reader<string> {
  return (value, place) => {
    const broken = typeof value === 'string' ? rule(value) : 'must be text';
    if (broken !== null) {
      place.mistakes.push({ file: null, path: place.path, line: null, rule: broken });
    }
    return value as string;
  };
}

/** Names sorted, so that the same environment always has the same form. */
function environment(value: unknown, place: Parameters<Reader<unknown>>[1]): Readonly<Record<string, VariableValue>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    place.mistakes.push({ file: null, path: place.path, line: null, rule: 'must be an object' });
    return {};
  }
  const entries = Object.entries(value as Record<string, unknown>).sort(([left], [right]) => (left < right ? -1 : 1));
  if (entries.length > limits.environmentEntriesMax) {
    place.mistakes.push({ file: null, path: place.path, line: null, rule: 'has too many entries' });
  }
  for (const [name, entry] of entries) {
    const under = { ...place, path: `${place.path}.${name}` };
    const text = obeying((accepted) => environmentEntryRule({ name, value: accepted }));
    const setting = object({ setting: obeying(settingNameRule), default: nullable(text) });
    obeying(environmentNameRule)(name, under);
    if (typeof entry === 'object') {
      obeying(settingVariableRule)(name, under);
    }
    (typeof entry === 'object' ? setting : text)(entry, under);
  }
  return Object.fromEntries(entries) as Record<string, VariableValue>;
}
