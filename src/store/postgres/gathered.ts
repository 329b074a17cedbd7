// Work that may wait for what is under way and then goes together: one statement for all that came meanwhile. Owns the
// order; knows nothing of what is sent.

/** Each call resolves, or rejects, with the sending that its item was part of. */
export function gather<T>(send: (items: readonly T[]) => Promise<void>): (item: T) => Promise<void> {
  let items: T[] = [];
  let next: Promise<void> | null = null;
  let last: Promise<void> = Promise.resolve();
  return (item) => {
    items.push(item);
    next ??= last.then(() => {
      const gone = items;
      items = [];
      next = null;
      const sent = send(gone);
      last = sent.catch(() => {});
      return sent;
    });
    return next;
  };
}
