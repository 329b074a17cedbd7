// The nearest spelling, for the hint behind an unknown name. Bounded: names longer than a resource id have none.
import { limits } from './limits.ts';

/** The nearest candidate, at most a third of the letters away (the first of equals), or null. */
export function nearestName(name: string, candidates: Iterable<string>): string | null {
  if (name.length < 3 || name.length > limits.resourceIdBytesMax) {
    return null;
  }
  let best: string | null = null;
  let bestDistance = Math.floor(name.length / 3) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `; did you mean …?` or nothing, to be put behind a rule. */
export function didYouMean(name: string, candidates: Iterable<string>): string {
  const nearest = nearestName(name, candidates);
  return nearest === null ? '' : `; did you mean ${nearest}?`;
}

/** Optimal string alignment: letters inserted, removed, replaced, or two neighbours exchanged (`tiemout`). */
function editDistance(left: string, right: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const isSame = left[row - 1] === right[column - 1];
      let distance = Math.min(
        previous[column]! + 1,
        current[column - 1]! + 1,
        previous[column - 1]! + (isSame ? 0 : 1),
      );
      if (row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]) {
        distance = Math.min(distance, beforePrevious[column - 2]! + 1);
      }
      current.push(distance);
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[right.length]!;
}
