// Reads a package manifest: from a parsed YAML or JSON value to its normalized form, or to every mistake in it at once.
// Pure. Shapes of single objects are in manifest-shape.ts; rules between steps in manifest-steps.ts.
import * as v from 'valibot';
import { parseDuration, parseSize } from './duration.ts';
import { limits } from './limits.ts';
import { createNotes, type ManifestMistake, type ManifestPath, type Notes } from './manifest-notes.ts';
import {
  commandRule,
  environmentEntryRule,
  environmentNameRule,
  type Rule,
  resourceIdRule,
  settingVariableRule,
} from './manifest-rules.ts';
import {
  describeValue,
  limitsShape,
  manifestSchema,
  packageShape,
  retryShape,
  settingShape,
  stepShape,
  taskShape,
  workflowShape,
} from './manifest-shape.ts';
import { noteStepRules } from './manifest-steps.ts';
import { didYouMean } from './nearest.ts';
import { normalizePackagePath } from './package-path.ts';
import type { Manifest, ManifestTask, ManifestWorkflow, VariableValue } from './revision.ts';

export type ManifestReading = { readonly manifest: Manifest } | { readonly mistakes: readonly ManifestMistake[] };

type Step = ManifestWorkflow['steps'][number];

/** Strict: an unknown key is a mistake. Never throws for bad input; every mistake is in the answer. */
export function readManifest(value: unknown): ManifestReading {
  const notes = createNotes();
  const fields = readObject(packageShape, value, { path: [], notes });
  const root = asMap(value) ?? {};
  const taskIds = new Set(Object.keys(asMap(root['tasks']) ?? {}));
  const tasks = Object.hasOwn(root, 'tasks')
    ? readMap(root['tasks'], { path: ['tasks'], notes, what: 'task', min: 1, max: limits.tasksMax }, readTask)
    : [];
  const workflows = Object.hasOwn(root, 'workflows')
    ? readMap(
        root['workflows'],
        { path: ['workflows'], notes, what: 'workflow', min: 0, max: limits.workflowsMax },
        (id, entry, place) => readWorkflow(id, entry, { ...place, taskIds }),
      )
    : [];
  const mistakes = notes.list();
  if (mistakes.length > 0 || fields === null) {
    return { mistakes };
  }
  const { name, version, title } = fields;
  return { manifest: { schema: manifestSchema, name, version, title: title ?? null, tasks, workflows } };
}

type Place = { readonly path: ManifestPath; readonly notes: Notes };

function readTask(id: string, value: unknown, { path, notes }: Place): ManifestTask | null {
  const fields = readObject(taskShape, value, { path, notes });
  const raw = asMap(value);
  const under = (key: string): Place => ({ path: [...path, key], notes });
  if (raw !== null && Object.hasOwn(raw, 'run') === Object.hasOwn(raw, 'shell')) {
    notes.add(path, 'must have exactly one of run (a list of words) and shell (a line for /bin/sh)');
  }
  const cwd = (typeof raw?.['cwd'] === 'string' ? normalizePackagePath(raw['cwd']) : null) ?? '.';
  const command: unknown = Array.isArray(raw?.['run']) ? raw['run'][0] : null;
  if (typeof command === 'string') {
    noteBroken(commandRule, { command, cwd }, { path: [...path, 'run', 0], notes });
  }
  const env = readEnvironment(raw?.['env'], under('env'));
  const retry = readRetry(raw?.['retry'], under('retry'));
  const taskLimits = readLimits(raw?.['limits'], under('limits'));
  if (fields === null || env === null || retry === null || taskLimits === null) {
    return null;
  }
  return {
    id,
    title: fields.title ?? null,
    enabled: fields.enabled ?? true,
    argv: fields.run ?? ['/bin/sh', '-c', fields.shell ?? ''],
    env,
    cwd,
    timeoutMs: milliseconds(fields.timeout, limits.taskTimeoutMsDefault),
    graceMs: milliseconds(fields.grace, limits.graceMsDefault),
    retry,
    user: fields.user ?? null,
    nice: fields.nice ?? 0,
    limits: taskLimits,
  };
}

function readEnvironment(value: unknown, place: Place): ManifestTask['env'] | null {
  if (value === undefined) {
    return {};
  }
  const max = limits.environmentEntriesMax;
  const entries = readMap(
    value,
    { ...place, what: 'name', min: 0, max, key: environmentNameRule },
    (name, entry, at) => {
      const value = readVariable(name, entry, at);
      return value === null ? null : { id: name, value };
    },
  );
  return Object.fromEntries(entries.map(({ id, value }) => [id, value]));
}

function readVariable(name: string, value: unknown, { path, notes }: Place): VariableValue | null {
  if (typeof value === 'string') {
    noteBroken(environmentEntryRule, { name, value }, { path, notes });
    return value;
  }
  if (asMap(value) === null) {
    const isPlain = typeof value === 'number' || typeof value === 'boolean';
    const found = `but is ${describeValue(value)}`;
    notes.add(
      path,
      isPlain ? `must be text, ${found}: put it in quotes` : `must be text or { setting: NAME }, ${found}`,
    );
    return null;
  }
  const fields = readObject(settingShape, value, { path, notes });
  noteBroken(settingVariableRule, name, { path, notes });
  if (fields?.default !== undefined) {
    noteBroken(environmentEntryRule, { name, value: fields.default }, { path: [...path, 'default'], notes });
  }
  return fields === null ? null : { setting: fields.setting, default: fields.default ?? null };
}

function readRetry(value: unknown, place: Place): ManifestTask['retry'] | null {
  const fields = value === undefined ? { limit: 0 } : readObject(retryShape, value, place);
  if (fields === null) {
    return null;
  }
  const { limit, backoff, factor, max, on }: v.InferOutput<v.ObjectSchema<typeof retryShape, undefined>> = fields;
  const causes = on ?? ['failed', 'timed_out'];
  causes.forEach((cause, index) => {
    if (causes.indexOf(cause) !== index) {
      place.notes.add([...place.path, 'on', index], `names ${cause} twice`);
    }
  });
  const backoffMs = milliseconds(backoff, limits.retryBackoffMsDefault);
  // A back-off above the default maximum raises it; only a maximum that someone wrote can contradict it.
  const maxMs = milliseconds(max, Math.max(backoffMs, limits.retryBackoffMsMaxDefault));
  if (maxMs < backoffMs) {
    place.notes.add([...place.path, 'max'], 'must not be below backoff');
  }
  return { limit, backoffMs, factor: factor ?? 2, maxMs, on: [...causes].sort() };
}

function readLimits(value: unknown, place: Place): ManifestTask['limits'] | null {
  const fields = value === undefined ? {} : readObject(limitsShape, value, place);
  if (fields === null) {
    return null;
  }
  const { memory, cpu, files }: v.InferOutput<v.ObjectSchema<typeof limitsShape, undefined>> = fields;
  return {
    memoryBytes: memory === undefined ? null : parseSize(memory),
    cpuMs: cpu === undefined ? null : parseDuration(cpu),
    files: files ?? null,
  };
}

function readWorkflow(
  id: string,
  value: unknown,
  place: Place & { readonly taskIds: ReadonlySet<string> },
): ManifestWorkflow | null {
  const { path, notes } = place;
  const fields = readObject(workflowShape, value, place);
  const raw = asMap(value);
  if (raw === null || !Object.hasOwn(raw, 'steps')) {
    return null;
  }
  const at = { path: [...path, 'steps'], notes };
  const steps = readMap(raw['steps'], { ...at, what: 'step', min: 1, max: limits.stepsMax }, readStep);
  noteStepRules(asMap(raw['steps']) ?? {}, { ...at, taskIds: place.taskIds });
  if (fields === null) {
    return null;
  }
  return {
    id,
    title: fields.title ?? null,
    enabled: fields.enabled ?? true,
    timeoutMs: fields.timeout === undefined ? null : parseDuration(fields.timeout),
    concurrency: fields.concurrency ?? null,
    steps: steps.map(({ id: stepKey, title, taskId, needs }) => ({ stepKey, title, taskId, needs: [...needs].sort() })),
  };
}

function readStep(id: string, value: unknown, place: Place): (Omit<Step, 'stepKey'> & { readonly id: string }) | null {
  const fields = readObject(stepShape, value, place);
  return fields === null ? null : { id, title: fields.title ?? null, taskId: fields.task, needs: fields.needs ?? [] };
}

/** Reads the entries of a map whose keys are names, in the order of those names, leaving out the broken ones. */
function readMap<T extends { readonly id: string }>(
  value: unknown,
  options: Place & { what: string; min: number; max: number; key?: Rule<string> },
  read: (id: string, value: unknown, place: Place) => T | null,
): readonly T[] {
  const { path, notes, what, min, max, key: keyRule = resourceIdRule } = options;
  const map = asMap(value);
  if (map === null) {
    notes.add(path, `must be a map of ${what}s, but is ${describeValue(value)}`);
    return [];
  }
  const names = Object.keys(map).sort();
  if (names.length < min || names.length > max) {
    notes.add(path, `must have ${min} to ${max} ${what}s, but has ${names.length}`);
  }
  const entries: T[] = [];
  for (const name of names.slice(0, max)) {
    noteBroken(keyRule, name, { path: [...path, name], notes });
    const entry = read(name, map[name], { path: [...path, name], notes });
    if (entry !== null) {
      entries.push(entry);
    }
  }
  return entries;
}

/** The fields of one object, or null when anything about it was noted. */
function readObject<const S extends v.ObjectEntries>(
  shape: S,
  value: unknown,
  { path, notes }: Place,
): v.InferOutput<v.ObjectSchema<S, undefined>> | null {
  const map = asMap(value);
  if (map === null) {
    notes.add(path, `must be a map, but is ${describeValue(value)}`);
    return null;
  }
  let isKnown = true;
  for (const key of Object.keys(map)) {
    if (!Object.hasOwn(shape, key)) {
      isKnown = false;
      notes.add([...path, key], () => `is not a known key${didYouMean(key, Object.keys(shape))}`);
    }
  }
  const result = v.safeParse(v.object(shape), map);
  for (const issue of result.issues ?? []) {
    const at = (issue.path ?? []).map(({ key }) => (typeof key === 'number' ? key : String(key)));
    notes.add([...path, ...at], issue.input === undefined ? 'is missing' : issue.message);
  }
  return result.success && isKnown ? result.output : null;
}

function noteBroken<T>(rule: Rule<T>, value: T, { path, notes }: Place): void {
  const broken = rule(value);
  if (broken !== null) {
    notes.add(path, broken);
  }
}

function asMap(value: unknown): Readonly<Record<string, unknown>> | null {
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isMap ? (value as Readonly<Record<string, unknown>>) : null;
}

function milliseconds(text: string | undefined, otherwise: number): number {
  return (text === undefined ? null : parseDuration(text)) ?? otherwise;
}
