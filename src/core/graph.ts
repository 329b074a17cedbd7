// Rules over `needs`, shared by the manifest and the plan.

export type GraphNode = { readonly key: string; readonly needs: readonly string[] };

/**
 * The first cycle as its path `[a, b, a]`, in the order in which its steps would run (b needs a), or null.
 * Deterministic: searched from the smallest key on, needs in their order. Needs that name no node are ignored. At most
 * one visit a node and edge.
 */
export function findCycle(nodes: readonly GraphNode[]): readonly string[] | null {
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  const done = new Set<string>();
  for (const start of [...byKey.keys()].sort()) {
    const path: { key: string; next: number }[] = [{ key: start, next: 0 }];
    const onPath = new Set([start]);
    while (path.length > 0 && !done.has(path[0]!.key)) {
      const top = path[path.length - 1]!;
      const need = byKey.get(top.key)?.needs[top.next];
      top.next += 1;
      if (need === undefined) {
        done.add(top.key);
        onPath.delete(top.key);
        path.pop();
      } else if (onPath.has(need)) {
        const keys = path.map((entry) => entry.key);
        return [need, ...keys.slice(keys.indexOf(need)).reverse()];
      } else if (byKey.has(need) && !done.has(need)) {
        path.push({ key: need, next: 0 });
        onPath.add(need);
      }
    }
  }
  return null;
}
