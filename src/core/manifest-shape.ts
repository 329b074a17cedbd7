// The shape of each object in a package manifest, as valibot schemas with rules in plain words. Owns what keys there
// are and what each may hold; how objects hang together is manifest.ts. schema/package.schema.json says the same to
// editors, and a test holds the two together.
import * as v from 'valibot';
import { limits } from './limits.ts';
import {
  argumentRule,
  cpuRule,
  cwdRule,
  durationRule,
  memoryRule,
  packageNameRule,
  type Rule,
  resourceIdRule,
  settingNameRule,
  shellRule,
  textRule,
  titleRule,
  userRule,
  versionRule,
} from './manifest-rules.ts';
import { retryCauses } from './revision.ts';

export const manifestSchema = 'qinglong/package@v1';

/** Said of every part of the format that this version does not carry out: refused, never quietly ignored. */
export const unsupportedRule = 'is not supported in this version';

const title = v.optional(text('text', titleRule));
const enabled = v.optional(v.boolean(must('true or false')));
// A uid is a number to YAML, and the same number in every notation.
const user = v.optional(
  v.pipe(
    v.union([v.number(), v.string()], must('a user name, or the number of a user')),
    v.transform((value) => `${value}`),
    text('a user name', userRule),
  ),
);
const unsupported = v.optional(v.never(unsupportedRule));
// Maps and nested objects are read one by one, so that every unknown key in them is found.
const elsewhere = v.optional(v.unknown());

export const packageShape = {
  schema: v.literal(manifestSchema, must(manifestSchema)),
  name: text('a package name', packageNameRule),
  version: text('text', versionRule),
  title,
  tasks: v.unknown(),
  workflows: v.unknown(),
};

export const taskShape = {
  title,
  run: v.optional(words(text('text', argumentRule), { what: 'a list of words', min: 1, max: limits.argumentsMax })),
  shell: v.optional(text('a line for /bin/sh', shellRule)),
  env: elsewhere,
  cwd: v.optional(text('a directory inside the package', cwdRule)),
  timeout: v.optional(text('a duration such as 30s', durationRule(1))),
  grace: v.optional(text('a duration such as 30s', durationRule(0))),
  retry: elsewhere,
  user,
  nice: v.optional(whole(limits.niceMin, limits.niceMax)),
  limits: elsewhere,
  enabled,
};

/** A variable whose value is set per device, in the place of its text. */
export const settingShape = {
  setting: text('the name of a setting', settingNameRule),
  default: v.optional(text('text', textRule)),
};

export const retryShape = {
  limit: whole(0, limits.retryLimitMax),
  backoff: v.optional(text('a duration such as 30s', durationRule(0))),
  factor: v.optional(whole(1, limits.retryFactorMax)),
  max: v.optional(text('a duration such as 30s', durationRule(0))),
  on: v.optional(
    words(v.picklist(retryCauses, must(`one of ${retryCauses.join(', ')}`)), {
      what: `a list of ${retryCauses.join(', ')}`,
      min: 1,
      max: retryCauses.length,
    }),
  ),
};

export const limitsShape = {
  memory: v.optional(text('a size such as 64m', memoryRule)),
  cpu: v.optional(text('a duration such as 30s', cpuRule)),
  files: v.optional(whole(limits.openFilesMin, limits.openFilesMax)),
};

export const workflowShape = {
  title,
  schedule: unsupported,
  overlap: unsupported,
  timeout: v.optional(text('a duration such as 30s', durationRule(1))),
  concurrency: v.optional(whole(1, limits.concurrencyMax)),
  enabled,
  steps: v.unknown(),
};

export const stepShape = {
  title,
  task: text('the id of a task', resourceIdRule),
  needs: v.optional(
    words(text('the key of a step', resourceIdRule), { what: 'a list of step keys', min: 0, max: limits.stepsMax }),
  ),
};

/** What a value is, for people: `the number 3`, `a list`. */
export function describeValue(value: unknown): string {
  if (value === null) {
    return 'empty';
  }
  switch (typeof value) {
    case 'string':
      return `the text ${JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)}`;
    case 'number':
      return `the number ${value}`;
    case 'boolean':
      return `${value}`;
    default:
      return Array.isArray(value) ? 'a list' : 'a map';
  }
}

function must(what: string) {
  return (issue: v.BaseIssue<unknown>) => `must be ${what}, but is ${describeValue(issue.input)}`;
}

function text(what: string, rule: Rule<string>) {
  // `version: 1.2` and `run: [sleep, 5]` are numbers to YAML; turning them back into text would not give `1.20` back.
  const message = (issue: v.BaseIssue<unknown>) => {
    const isPlain = typeof issue.input === 'number' || typeof issue.input === 'boolean';
    return `${must(what)(issue)}${isPlain && what === 'text' ? ': put it in quotes' : ''}`;
  };
  return v.pipe(
    v.string(message),
    v.rawCheck(({ dataset, addIssue }) => {
      const broken = dataset.typed ? rule(dataset.value) : null;
      if (broken !== null) {
        addIssue({ message: broken });
      }
    }),
  );
}

function whole(min: number, max: number) {
  const message = must(`a whole number from ${min} to ${max}`);
  return v.pipe(v.number(message), v.integer(message), v.minValue(min, message), v.maxValue(max, message));
}

// The length is checked before the entries, so that a huge list makes one mistake and not one an entry.
function words<T extends v.GenericSchema<unknown, string>>(
  entry: T,
  options: { readonly what: string; readonly min: number; readonly max: number },
) {
  const { what, min, max } = options;
  const count = (issue: v.BaseIssue<unknown>) =>
    `must have ${min} to ${max} entries, but has ${(issue.input as readonly unknown[]).length}`;
  return v.pipe(v.array(v.unknown(), must(what)), v.minLength(min, count), v.maxLength(max, count), v.array(entry));
}
