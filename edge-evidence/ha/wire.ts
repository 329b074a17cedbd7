// What the drill and its runtimes say to each other: one JSON document a line, with the maps of records kept as maps.

/** What a runtime is asked to do. */
export type Order =
  | { readonly verb: 'submit'; readonly protocol: string; readonly input: unknown }
  | { readonly verb: 'read'; readonly name: string; readonly args: unknown }
  /** Ends attempts of a runtime that is gone: those that had started are lost, the others begin here. */
  | { readonly verb: 'takeOver' }
  /** Works until no run is running any more. `isBackwards` begins with the newest, so that two meet less. */
  | { readonly verb: 'carryOn'; readonly isBackwards: boolean };

export type Failure = { readonly code: string; readonly message: string };
export type Reply = { readonly id: number } & ({ readonly outcome: unknown } | { readonly failure: Failure });

const mapMember = '\u0000map';

/** One line, without its end. */
export function encodeLine(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => (member instanceof Map ? { [mapMember]: [...member] } : member));
}

export function decodeLine(line: string): unknown {
  return JSON.parse(line, (_, member: unknown) => {
    const entries = (member as { readonly [mapMember]?: [unknown, unknown][] } | null)?.[mapMember];
    return entries === undefined ? member : new Map(entries);
  });
}
