// Closing what was opened one after the other.

export type Closable = { close(): Promise<void> };

/** The last one first, and each whatever the others throw; rejects with what was thrown first. */
export async function closeAll(opened: readonly Closable[]): Promise<void> {
  const last = opened.at(-1);
  if (last === undefined) {
    return;
  }
  let error: unknown = null;
  try {
    await last.close();
  } catch (thrown) {
    error = thrown;
  }
  try {
    await closeAll(opened.slice(0, -1));
  } catch (thrown) {
    error ??= thrown;
  }
  if (error !== null) {
    throw error;
  }
}
