// Work in parallel, as far as two cores carry it: much of it is waiting for processes and disks.

const atATime = 2;

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
