// Randomness that can be replayed: the same seed draws the same numbers on every machine. Not for secrets.

export type Random = {
  /** From 0 (included) to 1 (excluded). */
  fraction(): number;
  /** A whole number from `min` to `max`, both included. */
  between(min: number, max: number): number;
  /** One of a list that is not empty. */
  pick<T>(list: readonly T[]): T;
  /** True in `share` of all cases. */
  chance(share: number): boolean;
  /** Another source, which depends on this one's seed and the name alone: what one part draws moves no other part. */
  fork(name: string): Random;
};

const wordMax = 2 ** 32;

/** `seed` is a whole number from 0 to 2^32 − 1. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  // mulberry32: 32 bits of state, every one of them visited once.
  const fraction = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let word = Math.imul(state ^ (state >>> 15), state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / wordMax;
  };
  const between = (min: number, max: number) => min + Math.floor(fraction() * (max - min + 1));
  return {
    fraction,
    between,
    pick: (list) => list[between(0, list.length - 1)]!,
    chance: (share) => fraction() < share,
    fork: (name) => createRandom(hashText(`${seed}/${name}`)),
  };
}

/** FNV-1a. */
function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  }
  return hash;
}

/** A seed that nobody has chosen. */
export function drawSeed(): number {
  return Math.floor(Math.random() * wordMax);
}
