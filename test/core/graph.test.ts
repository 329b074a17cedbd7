import fc from 'fast-check';
import t from 'tap';
import { findCycle, type GraphNode } from '../../src/core/graph.ts';

const nodes = (graph: Record<string, string[]>): GraphNode[] =>
  Object.entries(graph).map(([key, needs]) => ({ key, needs }));

/** Brute force: some node reaches itself along needs that exist. */
function hasCycle(graph: readonly GraphNode[]): boolean {
  const reach = new Map(graph.map(({ key, needs }) => [key, new Set(needs)]));
  for (const via of reach.keys()) {
    for (const targets of reach.values()) {
      if (targets.has(via)) {
        for (const next of reach.get(via)!) {
          targets.add(next);
        }
      }
    }
  }
  return [...reach].some(([key, targets]) => targets.has(key));
}

/** The path is a cycle in the order of running: each key is a need of the next one, and no key comes twice. */
function isCycle(graph: readonly GraphNode[], path: readonly string[]): boolean {
  const needsOf = new Map(graph.map(({ key, needs }) => [key, needs]));
  const inner = path.slice(1);
  return (
    path.length >= 2 &&
    path[0] === path.at(-1) &&
    new Set(inner).size === inner.length &&
    inner.every((key, index) => needsOf.get(key)?.includes(path[index]!))
  );
}

const graphs = fc.integer({ min: 1, max: 8 }).chain((size) => {
  const keys = 'abcdefgh'.slice(0, size).split('');
  // One name more than there are nodes: a need that names nothing.
  const needs = fc.uniqueArray(fc.constantFrom(...keys, 'missing'), { maxLength: size > 4 ? 2 : 3 });
  return fc.tuple(...keys.map((key) => needs.map((list) => ({ key, needs: list }))));
});

t.test('a cycle is found if and only if brute force finds one, and what is found is one', async () => {
  fc.assert(
    fc.property(graphs, (graph) => {
      const cycle = findCycle(graph);
      return cycle === null ? !hasCycle(graph) : hasCycle(graph) && isCycle(graph, cycle);
    }),
    { numRuns: 2_000 },
  );
});

t.test('the cycle found does not depend on the order of the nodes', async () => {
  fc.assert(
    fc.property(graphs, (graph) => {
      return JSON.stringify(findCycle(graph)) === JSON.stringify(findCycle(graph.toReversed()));
    }),
  );
});

t.test('D12: a cycle with a tail is reported as its path', async (t) => {
  t.same(findCycle(nodes({ a: ['d'], b: ['a'], c: ['b'], d: ['c'], z: ['a'] })), ['a', 'b', 'c', 'd', 'a']);
});

t.test('a tail before the cycle is not part of its path', async (t) => {
  t.same(findCycle(nodes({ a: ['b'], b: ['c'], c: ['b'] })), ['b', 'c', 'b']);
});

t.test('a step that needs itself is the shortest cycle', async (t) => {
  t.same(findCycle(nodes({ a: ['a'] })), ['a', 'a']);
});

t.test('a graph without edges, an empty one, and needs that name nothing have no cycle', async (t) => {
  t.equal(findCycle([]), null);
  t.equal(findCycle(nodes({ a: [], b: [] })), null);
  t.equal(findCycle(nodes({ a: ['nothing'] })), null);
});

t.test('128 steps that all need all earlier ones are searched without delay', async (t) => {
  const keys = Array.from({ length: 128 }, (_, index) => `s${`${index}`.padStart(3, '0')}`);
  const dense = keys.map((key, index) => ({ key, needs: keys.slice(0, index) }));
  t.equal(findCycle(dense), null);
  const closed = [{ key: keys[0]!, needs: [keys[127]!] }, ...dense.slice(1)];
  t.ok(isCycle(closed, findCycle(closed)!));
});
