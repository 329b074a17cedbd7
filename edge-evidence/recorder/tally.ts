// Counts what goes wrong, each sort of it once: a fault of the product shows itself in hundreds of cuts.

const linesMax = 20;

// Ids, digests and numbers of pages: what differs between two cuts with the same fault.
const particulars = /[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+/g;

export class Tally {
  /** Cuts with any trouble. */
  cuts = 0;
  readonly #sorts = new Map<string, { readonly first: string; count: number }>();

  /** The trouble of one cut; `where` is asked for the first of its sort alone. */
  add(trouble: readonly string[], where: () => string): void {
    this.cuts += trouble.length > 0 ? 1 : 0;
    for (const what of trouble) {
      const sort = what.replaceAll(particulars, '#');
      const known = this.#sorts.get(sort);
      if (known === undefined) {
        this.#sorts.set(sort, { first: `${what.replaceAll(/\s+/g, ' ')} (${where()})`, count: 1 });
      } else {
        known.count += 1;
      }
    }
  }

  /** One line for each sort, the first cut of it named. */
  get failures(): readonly string[] {
    const lines = [...this.#sorts.values()].map(({ first, count }) =>
      count === 1 ? first : `${first}, ${count} times`,
    );
    const more = lines.length - linesMax;
    return more > 0 ? [...lines.slice(0, linesMax), `and ${more} other sorts`] : lines;
  }
}
