// Work in parallel: more than there are cores, for most of it is waiting for processes, disks and times that must pass.

const atATime = 4;

/** Results in the order of the list; each begins as soon as one before it has ended. */
export async function runAtATime<T, R>(
  list: readonly T[],
  work: (entry: T, index: number) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = [];
  const entries = list.entries();
  const worker = async () => {
    for (const [index, entry] of entries) {
      results[index] = await work(entry, index);
    }
  };
  await Promise.all(Array.from({ length: atATime }, worker));
  return results;
}
