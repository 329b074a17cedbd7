import t from 'tap';
import { canonicalJson, utf8Bytes } from '../../src/core/canonical-json.ts';
import { limits } from '../../src/core/limits.ts';
import { buildPlan, normalizePlan, type Plan, type PlanStep } from '../../src/core/plan.ts';
import { chainOf, edgeErrorOf, planOf, revisionOf, sampleTarget, sealPlan } from './samples.ts';

type Loose = Record<string, unknown>;
type LoosePlan = Loose & { steps: (Loose & { needs: unknown[] })[]; target: Loose };

const good = planOf({ fetch: [], merge: ['fetch', 'parse'], parse: ['fetch'] });

/** A copy of the good plan with one thing changed and, unless told otherwise, the digest of what it then says. */
function changed(change: (plan: LoosePlan) => void, options: { isSealed?: boolean } = {}): unknown {
  const copy = structuredClone(good) as unknown as LoosePlan;
  change(copy);
  if (options.isSealed === false) {
    return copy;
  }
  const { planDigest: _, ...contents } = copy;
  return sealPlan(contents as unknown as Plan);
}

const mistakesOf = (value: unknown) => {
  const error = edgeErrorOf(() => normalizePlan(value));
  return error.code === 'invalid' ? error.mistakes.map(({ path, rule }) => `${path}: ${rule}`) : [error.message];
};

t.test('a normalized plan is its own normal form, and its digest is golden (computed with Python)', async (t) => {
  t.same(normalizePlan(good), good);
  t.equal(canonicalJson(normalizePlan(normalizePlan(good))), canonicalJson(good));
  const golden = planOf({ fetch: [], merge: ['fetch'] });
  t.equal(golden.planDigest, '8138fe3a80060d349b2c3eec57428b4a541ce731066ecae08c015877c4732afe');
});

t.test('a plan that went through JSON text is the same plan', async (t) => {
  t.same(normalizePlan(JSON.parse(JSON.stringify(good))), good);
});

t.test('each missing field is refused by its path, and only it', async (t) => {
  const remove = (target: Loose, key: string) => Reflect.deleteProperty(target, key);
  for (const key of Object.keys(good)) {
    t.same(mistakesOf(changed((plan) => remove(plan, key), { isSealed: false })), [`${key}: is missing`]);
  }
  for (const key of Object.keys(good.target)) {
    const value = changed((plan) => remove(plan.target, key), { isSealed: false });
    t.same(mistakesOf(value), [`target.${key}: is missing`]);
  }
  for (const key of Object.keys(good.steps[0]!)) {
    const value = changed((plan) => remove(plan.steps[1]!, key), { isSealed: false });
    t.same(mistakesOf(value), [`steps[1].${key}: is missing`]);
  }
});

t.test('an unknown field is refused at every level', async (t) => {
  const add = (target: Loose) => Object.assign(target, { extra: 1 });
  t.same(mistakesOf(changed((plan) => add(plan))), ['extra: is not a known field']);
  t.same(mistakesOf(changed((plan) => add(plan.target))), ['target.extra: is not a known field']);
  t.same(mistakesOf(changed((plan) => add(plan.steps[2]!))), ['steps[2].extra: is not a known field']);
});

t.test('a field of a wrong type is refused, null and undefined too', async (t) => {
  for (const value of [null, undefined, 1.5, [], {}, true]) {
    for (const key of Object.keys(good)) {
      if (!((key === 'steps' && Array.isArray(value)) || (key === 'target' && value?.constructor === Object))) {
        const plan = changed((copy) => Object.assign(copy, { [key]: value }), { isSealed: false });
        t.match(mistakesOf(plan)[0], new RegExp(`^${key}: must be`), `${key} ${JSON.stringify(value)}`);
      }
    }
  }
  for (const value of [null, 1, 'plan', [], undefined]) {
    t.same(mistakesOf(value), [': must be an object']);
  }
});

const setStep = (index: number, change: Partial<PlanStep>) => (plan: LoosePlan) => {
  Object.assign(plan.steps[index]!, change);
};

const rules: readonly { rule: string; change: (plan: LoosePlan) => void; expected: RegExp }[] = [
  {
    rule: 'schema is this one',
    change: (plan) => Object.assign(plan, { schema: 'qinglong/workflow-plan@v2' }),
    expected: /^schema: must be one of/,
  },
  {
    rule: 'planId is portable',
    change: (plan) => Object.assign(plan, { planId: 'p'.repeat(37) }),
    expected: /^planId: .*36 bytes/,
  },
  {
    rule: 'runId is portable',
    change: (plan) => Object.assign(plan, { runId: '-run' }),
    expected: /^runId: .*36 bytes/,
  },
  {
    rule: 'workflowId is a name',
    change: (plan) => Object.assign(plan, { workflowId: 'Watch' }),
    expected: /^workflowId: must be a name/,
  },
  {
    rule: 'digests are hex',
    change: (plan) => Object.assign(plan.target, { lockDigest: 'A'.repeat(64) }),
    expected: /^target\.lockDigest: .*hex/,
  },
  {
    rule: 'generation is a counter',
    change: (plan) => Object.assign(plan.target, { generation: 2 ** 31 }),
    expected: /^target\.generation: must be an integer/,
  },
  {
    rule: 'plannedAtMs is a time',
    change: (plan) => Object.assign(plan, { plannedAtMs: -1 }),
    expected: /^plannedAtMs: must be an integer/,
  },
  { rule: 'there is a step', change: (plan) => plan.steps.splice(0), expected: /^steps: must be a list of 1 to 128/ },
  {
    rule: 'initialStatus is known',
    change: (plan) => Object.assign(plan.steps[0]!, { initialStatus: 'running' }),
    expected: /^steps\[0\]\.initialStatus: must be one of/,
  },
  {
    rule: 'steps are sorted',
    change: (plan) => plan.steps.reverse(),
    expected: /^steps\[1\]\.stepKey: must be unique and sorted/,
  },
  {
    rule: 'keys are unique',
    change: (plan) => plan.steps.splice(1, 0, structuredClone(plan.steps[0]!)),
    expected: /^steps\[1\]\.stepKey: must be unique/,
  },
  {
    rule: 'step run ids are derived',
    change: setStep(0, { stepRunId: 'st_0' }),
    expected: /^steps\[0\]\.stepRunId: must be st_[0-9a-f]{32}/,
  },
  {
    rule: 'task refs name this revision',
    change: setStep(0, { taskRef: `${'9'.repeat(64)}:probe` }),
    expected: /^steps\[0\]\.taskRef: must be 3{64}:probe/,
  },
  {
    rule: 'task refs name this task',
    change: setStep(0, { taskId: 'other' }),
    expected: /^steps\[0\]\.taskRef: must be 3{64}:other/,
  },
  {
    rule: 'a step without needs is ready',
    change: setStep(0, { initialStatus: 'pending' }),
    expected: /^steps\[0\]\.initialStatus: must be ready exactly/,
  },
  {
    rule: 'a step with needs is pending',
    change: setStep(1, { initialStatus: 'ready' }),
    expected: /^steps\[1\]\.initialStatus: must be ready exactly/,
  },
  {
    rule: 'every step is required',
    change: setStep(0, { required: false }),
    expected: /^steps\[0\]\.required: must be true/,
  },
  {
    rule: 'needs are sorted',
    change: setStep(1, { needs: ['parse', 'fetch'] }),
    expected: /^steps\[1\]\.needs\[1\]: must be unique and sorted/,
  },
  {
    rule: 'needs are unique',
    change: setStep(1, { needs: ['fetch', 'fetch'] }),
    expected: /^steps\[1\]\.needs\[1\]: must be unique and sorted/,
  },
  {
    rule: 'needs exist',
    change: setStep(1, { needs: ['fetch', 'nobody'] }),
    expected: /^steps\[1\]\.needs\[1\]: names nobody/,
  },
  {
    rule: 'needs are acyclic',
    change: setStep(2, { needs: ['merge'] }),
    expected: /^steps: form a cycle: merge -> parse -> merge$/,
  },
  {
    rule: 'a step does not need itself',
    change: setStep(2, { needs: ['parse'] }),
    expected: /^steps: form a cycle: parse -> parse$/,
  },
];

for (const { rule, change, expected } of rules) {
  t.test(`a plan is refused, for this one reason: ${rule}`, async (t) => {
    const mistakes = mistakesOf(changed(change));
    t.equal(mistakes.length, rule === 'steps are sorted' ? 2 : 1, mistakes.join('\n'));
    t.match(mistakes[0], expected);
  });
}

t.test('a digest that is not of these contents is refused, whichever field changed', async (t) => {
  for (const key of ['planId', 'workflowId'] as const) {
    const altered = changed((plan) => Object.assign(plan, { [key]: `${plan[key]}x` }), { isSealed: false });
    t.same(mistakesOf(altered), ['planDigest: is not the digest of this plan']);
  }
  const later = changed((plan) => Object.assign(plan, { plannedAtMs: 1 }), { isSealed: false });
  t.same(mistakesOf(later), ['planDigest: is not the digest of this plan']);
  const other = changed((plan) => Object.assign(plan, { planDigest: '0'.repeat(64) }), { isSealed: false });
  t.same(mistakesOf(other), ['planDigest: is not the digest of this plan']);
});

t.test('all mistakes of shape are said at once', async (t) => {
  const value = changed((plan) => {
    Object.assign(plan, { planId: '', extra: 1 });
    Object.assign(plan.target, { projectId: 'ä', generation: -1 });
    Object.assign(plan.steps[0]!, { stepKey: 'A', required: 'yes' });
    Object.assign(plan.steps[2]!, { needs: ['fetch', 'B'] });
    Reflect.deleteProperty(plan.steps[1]!, 'taskId');
  });
  const paths = mistakesOf(value).map((mistake) => mistake.split(':')[0]);
  const expected = [
    ...['extra', 'planId', 'target.projectId', 'target.generation', 'steps[0].stepKey', 'steps[0].required'],
    ...['steps[1].taskId', 'steps[2].needs[1]'],
  ];
  t.same(paths.toSorted(), expected.toSorted());
});

t.test('all mistakes of meaning are said at once', async (t) => {
  const value = changed(
    (plan) => {
      Object.assign(plan.steps[0]!, { stepRunId: 'st_0', initialStatus: 'pending', required: false });
      Object.assign(plan.steps[1]!, { taskRef: 'x', needs: ['nobody', 'fetch'] });
      Object.assign(plan.steps[2]!, { needs: ['parse'] });
    },
    { isSealed: false },
  );
  const paths = mistakesOf(value).map((mistake) => mistake.split(':')[0]);
  const expected = [
    ...['steps[0].stepRunId', 'steps[0].initialStatus', 'steps[0].required', 'steps[1].taskRef'],
    ...['steps[1].needs[0]', 'steps[1].needs[1]', 'steps', 'planDigest'],
  ];
  t.same(paths, expected);
});

t.test('a cycle is reported as its path, in the order in which its steps would run', async (t) => {
  const cyclic = planOf({ a: ['d'], b: ['a'], c: ['b'], d: ['c'], z: ['a'] });
  t.same(mistakesOf(cyclic), ['steps: form a cycle: a -> b -> c -> d -> a']);
});

t.test('128 steps are a plan, 129 are not', async (t) => {
  t.equal(normalizePlan(planOf(chainOf(128))).steps.length, 128);
  t.same(mistakesOf(planOf(chainOf(129))), ['steps: must be a list of 1 to 128 entries']);
});

/** 128 steps with names as long as they may be, and needs until the plan has exactly so many bytes. */
function planOfBytes(bytes: number): Plan {
  const key = (index: number) => `s${`${index}`.padStart(3, '0')}`.padEnd(63, 'x');
  const keys = Array.from({ length: 128 }, (_, index) => key(index));
  const build = (needs: number, projectId: string) => {
    let left = needs;
    const shape = keys.map((name, index) => {
      const own = keys.slice(0, Math.min(left, index));
      left -= own.length;
      return [name, own] as const;
    });
    const { planDigest: _, ...contents } = planOf(Object.fromEntries(shape));
    return sealPlan({ ...contents, target: { ...contents.target, projectId } });
  };
  const size = (plan: Plan) => utf8Bytes(canonicalJson(plan));
  // A need takes 65 bytes or 66, the first of a step 2 more (`pending`): what 68 a need leave over fits the project id.
  let needs = 0;
  for (let more = 1; more > 0; needs += more) {
    more = Math.floor((bytes - size(build(needs, 'p'))) / 68);
  }
  const missing = bytes - size(build(needs, 'p'));
  return build(needs, 'p'.repeat(1 + missing));
}

t.test('a plan of 128 steps may have exactly 256 KiB and not one byte more', async (t) => {
  const largest = planOfBytes(limits.planBytesMax);
  t.equal(utf8Bytes(canonicalJson(largest)), limits.planBytesMax);
  t.same(normalizePlan(largest), largest);
  const larger = planOfBytes(limits.planBytesMax + 1);
  t.same(mistakesOf(larger), [`steps: make a plan of 262145 bytes; at most 262144 are allowed`]);
});

t.test('a plan built from a revision is normalized, and is the same each time', async (t) => {
  const revision = revisionOf({ merge: ['fetch'], fetch: [] });
  const options = {
    ...{ planId: 'plan-1', runId: 'run-1', workflowId: 'watch', nowMs: 1_000, revision },
    target: { ...sampleTarget, materializedRevisionDigest: revision.digest },
    publicationDigest: '4'.repeat(64),
  };
  const built = buildPlan(options);
  if (!('plan' in built)) {
    t.fail('the plan was refused');
    return;
  }
  const { plan } = built;
  t.same(normalizePlan(plan), plan);
  t.same(buildPlan(options), built);
  t.same(
    plan.steps.map(({ stepKey, taskId, needs, initialStatus }) => ({ stepKey, taskId, needs, initialStatus })),
    [
      { stepKey: 'fetch', taskId: 'probe', needs: [], initialStatus: 'ready' },
      { stepKey: 'merge', taskId: 'probe', needs: ['fetch'], initialStatus: 'pending' },
    ],
  );
  const task = revision.tasks.find(({ id }) => id === 'probe')!;
  t.ok(plan.steps.every((step) => step.taskSourceDigest === task.sourceDigest));
  t.ok(plan.steps.every((step) => step.taskRef === `${revision.digest}:probe`));
});

t.test('D05: the root may be written last', async (t) => {
  const revision = revisionOf({ b: ['a'], c: ['a'], d: ['b', 'c'], a: [] });
  const built = planFrom('watch', revision);
  t.same('plan' in built && built.plan.steps.map(({ stepKey }) => stepKey), ['a', 'b', 'c', 'd']);
});

t.test('an unknown workflow, a disabled one, and one with a disabled task are refused as values', async (t) => {
  const revision = revisionOf({ a: [] });
  t.match(planFrom('nobody', revision), { refusal: { kind: 'not-found', reason: /watch/ } });
  t.match(planFrom('dormant', revision), { refusal: { kind: 'not-allowed', reason: /dormant is disabled/ } });
  t.match(planFrom('broken', revision), { refusal: { kind: 'not-allowed', reason: /task off of step only/ } });
});

function planFrom(workflowId: string, revision: ReturnType<typeof revisionOf>): ReturnType<typeof buildPlan> {
  const target = { ...sampleTarget, materializedRevisionDigest: revision.digest };
  const ids = { planId: 'plan-1', runId: 'run-1', publicationDigest: '4'.repeat(64) };
  return buildPlan({ ...ids, workflowId, nowMs: 1_000, revision, target });
}
