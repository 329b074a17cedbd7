// Shapes of graphs that people wrote elsewhere and were surprised by, with the ends that are expected here. Where the
// original has a step that is skipped by a condition (D02, D03, D07, D08), that step fails here, until steps can have
// conditions; a joiner that accepts skipped needs, or always runs, waits for the same. Not a test itself.

export type ShapeStep = {
  readonly needs: readonly string[];
  readonly end: 'succeeds' | 'fails' | 'times out';
};

export type Shape = {
  readonly what: string;
  readonly steps: Readonly<Record<string, ShapeStep>>;
  /** Each step's status; for one that is skipped, the need that it names and that need's status. */
  readonly expected: Readonly<Record<string, string>>;
  readonly run: 'succeeded' | 'failed' | 'timed_out';
};

const ok = (...needs: readonly string[]): ShapeStep => ({ needs, end: 'succeeds' });
const bad = (...needs: readonly string[]): ShapeStep => ({ needs, end: 'fails' });

export const shapes: Readonly<Record<string, Shape>> = {
  D02: {
    what: 'a diamond of which one arm begins with a step that does not succeed; the joiner needs both arms',
    steps: { a: ok(), b: bad(), c: ok('a'), d: ok('b'), e: ok('c', 'd') },
    expected: {
      a: 'succeeded',
      b: 'failed',
      c: 'succeeded',
      d: 'needs b, which is failed',
      e: 'needs d, which is skipped',
    },
    run: 'failed',
  },
  D03: {
    what: 'the same, one hop later',
    steps: { a: ok(), b: bad(), c: ok('a'), d: ok('b'), e: ok('d') },
    expected: {
      a: 'succeeded',
      b: 'failed',
      c: 'succeeded',
      d: 'needs b, which is failed',
      e: 'needs d, which is skipped',
    },
    run: 'failed',
  },
  D05: {
    what: 'a diamond that is written root last',
    steps: { b: ok('z'), c: ok('z'), d: ok('b', 'c'), z: ok() },
    expected: { b: 'succeeded', c: 'succeeded', d: 'succeeded', z: 'succeeded' },
    run: 'succeeded',
  },
  D07: {
    what: 'a chain whose first step does not succeed: each skip looks at its direct need',
    steps: { 'job-1': bad(), 'job-2': ok('job-1'), 'job-3': ok('job-2') },
    expected: {
      'job-1': 'failed',
      'job-2': 'needs job-1, which is failed',
      'job-3': 'needs job-2, which is skipped',
    },
    run: 'failed',
  },
  D08: {
    what: 'three loaders, two of which do not succeed, and one joiner',
    steps: {
      'load-1': ok(),
      'load-2': bad(),
      'load-3': { needs: [], end: 'times out' },
      finalize: ok('load-1', 'load-2', 'load-3'),
    },
    expected: {
      'load-1': 'succeeded',
      'load-2': 'failed',
      'load-3': 'timed_out',
      finalize: 'needs load-2, which is failed',
    },
    run: 'failed',
  },
  'a need that timed out': {
    what: 'its child is skipped, and with a skipped step the run is failed',
    steps: { a: { needs: [], end: 'times out' }, b: ok('a'), c: ok('b') },
    expected: { a: 'timed_out', b: 'needs a, which is timed out', c: 'needs b, which is skipped' },
    run: 'failed',
  },
  'a time-out that nobody needs': {
    what: 'the run itself timed out',
    steps: { a: { needs: [], end: 'times out' }, b: ok() },
    expected: { a: 'timed_out', b: 'succeeded' },
    run: 'timed_out',
  },
};
