// What fast-check draws for the tests of core: shapes of workflows, and the choices that drive a run.
import fc from 'fast-check';
import type { Shape } from './samples.ts';

/** Acyclic shapes of up to so many steps. Running order and key order have nothing to do with each other. */
export function shapesUpTo(sizeMax: number): fc.Arbitrary<Shape> {
  const edges = fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: sizeMax * 3 });
  return fc.record({ size: fc.integer({ min: 1, max: sizeMax }), edges }).map(({ size, edges }) => {
    // 37 and 128 have no common factor, so that no key comes twice.
    const keys = Array.from({ length: size }, (_, index) => `s${`${(index * 37) % 128}`.padStart(3, '0')}`);
    const needs = keys.map(() => new Set<string>());
    for (const [from, to] of edges) {
      const later = from % size;
      if (later > 0) {
        needs[later]!.add(keys[to % later]!);
      }
    }
    return Object.fromEntries(keys.map((key, index) => [key, [...needs[index]!].sort()]));
  });
}

/** What happens in a run, one action each, and how the wall clock moves meanwhile: it may step back. */
export const choices = fc.array(
  fc.record({ action: fc.nat({ max: 100_000 }), clockMs: fc.integer({ min: -5_000, max: 10_000 }) }),
  { maxLength: 150, size: 'max' },
);
