// One fact that `doctor` looks at, and how it stands.

/** `bad`: it does not work, or is damaged. `warning`: it works, with a cost or a risk. `unknown`: it cannot be told. */
export type CheckState = 'ok' | 'warning' | 'bad' | 'unknown';

export type Check = {
  readonly name: string;
  readonly state: CheckState;
  /** What is so; where it is not well, also what to do. */
  readonly text: string;
  /** For programs. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** Of a bad one; 4 where nothing else is said. */
  readonly exitCode?: number;
};
