// What the preload and its parent say to each other: where to kill, what was passed on the way.

/** Set in the environment of a process that loads the preload: its orders as JSON. */
export const ordersVariable = 'QINGLONG_EDGE_EVIDENCE_ORDERS';

export type Orders = {
  /** The number of the point to die at, counted from 1; null to observe only. */
  readonly kill: number | null;
  /** Receives a `Reached` right before the death, else an `Observation` at the end. */
  readonly file: string;
};

/** A moment between two statements. Killed there, the database holds what its last commit made of it. */
export type Point = {
  /** `after INSERT INTO RunEvents`, `before COMMIT`, … */
  readonly name: string;
  /** Which of the observed facts are durable by now. */
  readonly facts: number;
};

export type Reached = { readonly number: number; readonly name: string };

export type Observation = {
  readonly points: readonly Point[];
  /** Facts of the database at each change of them, the first those that it was prepared with. */
  readonly facts: readonly string[];
  /** COMMITs that wrote something. */
  readonly commits: number;
  /** `write_bytes` of the process and of everybody that it has waited for; null where the kernel does not count. */
  readonly writtenBytes: number | null;
};

export const commitPoints = { before: 'before COMMIT', after: 'after COMMIT' } as const;
