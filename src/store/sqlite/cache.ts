// A small cache of immutable evidence that was verified when it was read: plans and revisions, named by their digests.
// Owns its own bounds; never holds what can change.
export type Cache<T> = {
  get(key: string): T | null;
  /** `bytes` is the length of the text behind the value. */
  put(key: string, value: T, bytes: number): void;
};

// Parsed, a record takes a few times the bytes of its text. 32 chains fit (with 8 entries they cost a quarter more
// processor time a step), and so does one plan of the largest size.
const entriesMax = 64;
const bytesMax = 256 * 1024;

/** Least recently used goes first. One entry stays whatever its size: a large revision is not parsed for every step. */
export function createCache<T>(): Cache<T> {
  const entries = new Map<string, { readonly value: T; readonly bytes: number }>();
  let held = 0;
  return {
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) {
        return null;
      }
      entries.delete(key);
      entries.set(key, entry);
      return entry.value;
    },
    put(key, value, bytes) {
      held += bytes - (entries.get(key)?.bytes ?? 0);
      entries.delete(key);
      entries.set(key, { value, bytes });
      for (const [oldest, entry] of entries) {
        if (entries.size === 1 || (entries.size <= entriesMax && held <= bytesMax)) {
          break;
        }
        entries.delete(oldest);
        held -= entry.bytes;
      }
    },
  };
}
