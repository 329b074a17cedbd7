import fc from 'fast-check';
import t from 'tap';
import { canonicalJson, utf8Bytes } from '../../src/core/canonical-json.ts';
import { limits } from '../../src/core/limits.ts';
import { findCycles, planBytesBound } from '../../src/core/manifest-steps.ts';
import { buildPlan } from '../../src/core/plan.ts';
import { materialize } from '../../src/core/revision.ts';
import { acceptedManifest, mistakesOf, sampleManifest, withSteps } from './manifest-samples.ts';

const at = (step: string) => `workflows.nightly.steps.${step}`;

t.test('C050 a need that is mistyped is refused with its name and the nearest step', async (t) => {
  t.strictSame(mistakesOf(withSteps({ fetch: [], merge: ['fetsh'] })), [
    `${at('merge')}.needs[0]: names fetsh, which is no step of this workflow; did you mean fetch?`,
  ]);
});

t.test('C050 a step that needs itself is refused with the path a -> a', async (t) => {
  t.strictSame(mistakesOf(withSteps({ a: ['a'] })), [`${at('a')}.needs[0]: must not name its own step: a -> a`]);
});

t.test('C050 a cycle is refused with its path a -> b -> a', async (t) => {
  t.strictSame(mistakesOf(withSteps({ a: ['b'], b: ['a'] })), [`${at('a')}.needs: form a cycle: a -> b -> a`]);
});

t.test('C050 a cycle apart from a valid part is refused, and only the cycle is named', async (t) => {
  const shape = { first: [], second: ['first'], x: ['z'], y: ['x'], z: ['y'] };
  t.strictSame(mistakesOf(withSteps(shape)), [`${at('x')}.needs: form a cycle: x -> y -> z -> x`]);
});

t.test('C050 the same need twice is refused where it stands the second time', async (t) => {
  t.strictSame(mistakesOf(withSteps({ a: [], b: ['a', 'a'] })), [`${at('b')}.needs[1]: names a twice`]);
});

t.test('C048 a workflow with 0 steps is refused', async (t) => {
  t.strictSame(mistakesOf(withSteps({})), ['workflows.nightly.steps: must have 1 to 128 steps, but has 0']);
});

t.test('D05 a diamond written root last is valid, its steps sorted', async (t) => {
  const manifest = acceptedManifest(withSteps({ b: ['a'], c: ['a'], d: ['c', 'b'], a: [] }));
  const steps = manifest.workflows[0]!.steps.map(({ stepKey, needs }) => [stepKey, ...needs]);
  t.strictSame(steps, [['a'], ['b', 'a'], ['c', 'a'], ['d', 'b', 'c']]);
});

t.test('D12 a cycle with a tail is refused with the cycle alone, in the order of running', async (t) => {
  t.strictSame(mistakesOf(withSteps({ a: ['d'], b: ['a'], c: ['b'], d: ['c'], z: ['a'] })), [
    `${at('a')}.needs: form a cycle: a -> b -> c -> d -> a`,
  ]);
});

t.test('two cycles that share no step are told both', async (t) => {
  t.strictSame(mistakesOf(withSteps({ a: ['b'], b: ['a'], c: ['d'], d: ['c'] })), [
    `${at('a')}.needs: form a cycle: a -> b -> a`,
    `${at('c')}.needs: form a cycle: c -> d -> c`,
  ]);
});

t.test('a task that does not exist is refused with the nearest one', async (t) => {
  const workflows = { nightly: { steps: { a: { task: 'prope' }, b: { task: 'unlike-all' } } } };
  t.strictSame(mistakesOf(sampleManifest({ workflows })), [
    `${at('a')}.task: names prope, which is no task; did you mean probe?`,
    `${at('b')}.task: names unlike-all, which is no task`,
  ]);
});

t.test('a disabled task in a workflow is accepted: the plan refuses it', async (t) => {
  t.strictSame(mistakesOf(sampleManifest({ tasks: { probe: { run: ['true'], enabled: false } } })), []);
});

t.test('rules between steps are told beside mistakes in the steps themselves', async (t) => {
  const steps = { a: { task: 'probe', needs: ['b', 1] }, b: { needs: ['a'], tittle: 'x' } };
  t.strictSame(mistakesOf(sampleManifest({ workflows: { nightly: { steps } } })), [
    `${at('a')}.needs[1]: must be the key of a step, but is the number 1`,
    `${at('b')}.tittle: is not a known key; did you mean title?`,
    `${at('b')}.task: is missing`,
    `${at('a')}.needs: form a cycle: a -> b -> a`,
  ]);
});

t.test('a workflow has at most 128 steps', async (t) => {
  const chain = (count: number) =>
    Object.fromEntries(
      Array.from({ length: count }, (_, index) => [`s${index}`, index === 0 ? [] : [`s${index - 1}`]]),
    );
  t.strictSame(mistakesOf(withSteps(chain(128))), []);
  t.strictSame(mistakesOf(withSteps(chain(129))), ['workflows.nightly.steps: must have 1 to 128 steps, but has 129']);
});

t.test('a workflow whose plan could exceed its bound is refused before it is installed', async (t) => {
  const key = (index: number) => `${'s'.repeat(59)}${String(index).padStart(4, '0')}`;
  const keys = Array.from({ length: 128 }, (_, index) => key(index));
  const complete = Object.fromEntries(keys.map((name, index) => [name, keys.slice(0, index)]));
  t.match(mistakesOf(withSteps(complete)), [/^workflows\.nightly\.steps: make a plan of up to [0-9]+ bytes, at most/]);
});

const shapes = fc.array(fc.tuple(fc.stringMatching(/^[a-z]{1,20}$/), fc.array(fc.nat(30), { maxLength: 8 })), {
  minLength: 1,
  maxLength: 30,
});

/** Steps whose needs name any of them, so that cycles occur; or only earlier ones. */
function stepsOf(shape: readonly (readonly [string, readonly number[]])[], isAcyclic: boolean) {
  const keys = [...new Set(shape.map(([key]) => key))].sort();
  return keys.map((id, index) => {
    const places = shape.find(([key]) => key === id)![1].map((place) => place % (isAcyclic ? index || 1 : keys.length));
    const needs = [...new Set(places.map((place) => keys[place]!))].filter((need) => need !== id).sort();
    return { id, taskId: 'probe', needs: isAcyclic && index === 0 ? [] : needs };
  });
}

t.test(
  'a reported cycle is one: each step in it is needed by the next, and it starts at its smallest key',
  async () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const steps = stepsOf(shape, false);
        const seen = new Set<string>();
        for (const cycle of findCycles(steps)) {
          const keys = cycle.slice(0, -1);
          const isLinked = cycle
            .slice(1)
            .every((key, index) => steps.find(({ id }) => id === key)!.needs.includes(keys[index]!));
          const isApart = keys.every((key) => !seen.has(key));
          for (const key of keys) {
            seen.add(key);
          }
          if (!isLinked || !isApart || cycle[0] !== [...keys].sort()[0] || cycle[0] !== cycle.at(-1)) {
            return false;
          }
        }
        return true;
      }),
    );
  },
);

t.test('a cycle is found exactly when the steps cannot be put in an order', async () => {
  fc.assert(
    fc.property(shapes, fc.boolean(), (shape, isAcyclic) => {
      const steps = stepsOf(shape, isAcyclic);
      const left = new Map(steps.map(({ id, needs }) => [id, needs]));
      // The slow reference: take out whatever needs nothing that is left, until nothing moves.
      for (let free = ['']; free.length > 0; ) {
        free = [...left].filter(([, needs]) => needs.every((need) => !left.has(need))).map(([id]) => id);
        for (const id of free) {
          left.delete(id);
        }
      }
      return findCycles(steps).length > 0 === left.size > 0;
    }),
  );
});

/** The largest plan that these steps can make: every id at its longest. */
function largestPlanBytes(written: Readonly<Record<string, readonly string[]>>): number {
  const revision = materialize(acceptedManifest(withSteps(written)), '0'.repeat(64));
  const built = buildPlan({
    planId: 'p'.repeat(limits.portableIdBytesMax),
    runId: 'r'.repeat(limits.portableIdBytesMax),
    target: {
      projectId: 'p'.repeat(limits.identifierBytesMax),
      packageName: 'n'.repeat(limits.packageNameBytesMax),
      installationId: 'i'.repeat(limits.identifierBytesMax),
      lockDigest: '0'.repeat(64),
      generation: limits.counterMax,
      generationDigest: '0'.repeat(64),
      materializedRevisionDigest: revision.digest,
    },
    publicationDigest: '0'.repeat(64),
    revision,
    workflowId: 'nightly',
    nowMs: Number.MAX_SAFE_INTEGER,
  });
  return 'plan' in built ? utf8Bytes(canonicalJson(built.plan)) : Number.NaN;
}

t.test('the bound of a plan is never below the plan', async () => {
  fc.assert(
    fc.property(shapes, (shape) => {
      const steps = stepsOf(shape, true);
      const written = Object.fromEntries(steps.map(({ id, needs }) => [id, needs]));
      return largestPlanBytes(written) <= planBytesBound(steps);
    }),
    { numRuns: 30 },
  );
});

t.test('each step of a plan takes no more than its share of the bound, and little less', async (t) => {
  const keys = Array.from({ length: 128 }, (_, index) => `s${index}`);
  const bytes = (count: number) => {
    const entries = keys.slice(0, count).map((key, index) => [key, index === 0 ? [] : [keys[index - 1]!]] as const);
    const steps = entries.map(([id, needs]) => ({ id, taskId: 'probe', needs }));
    return { actual: largestPlanBytes(Object.fromEntries(entries)), bound: planBytesBound(steps) };
  };
  const [few, many] = [bytes(1), bytes(128)];
  const actualGrowth = many.actual - few.actual;
  const boundGrowth = many.bound - few.bound;
  t.ok(actualGrowth <= boundGrowth, `${actualGrowth} within ${boundGrowth}`);
  t.ok(boundGrowth < 1.1 * actualGrowth, `${boundGrowth} close to ${actualGrowth}`);
});
