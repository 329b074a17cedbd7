// Random packages: manifests as people write them, read by the product's own reader, and beside each the same facts as
// the model wants them. What a task's command is like is told to the machine by its argument.
import type { Random } from '../../edge-evidence/random.ts';
import { sha256 } from '../../src/core/hash.ts';
import { readManifest } from '../../src/core/manifest.ts';
import { type MaterializedRevision, materialize } from '../../src/core/revision.ts';
import type { Behaviour } from './machine.ts';
import type { StepRule, WorkflowRule } from './rules.ts';

export type SimulatedPackage = {
  readonly name: string;
  readonly revision: MaterializedRevision;
  /** By workflow id. */
  readonly workflows: ReadonlyMap<string, WorkflowRule>;
  /** `package/task` of those that are functions of the embedder. */
  readonly handlerNames: readonly string[];
};

const characters = ['steady', 'steady', 'flaky', 'slow', 'endless', 'stubborn', 'doomed', 'handler'] as const;
type Character = (typeof characters)[number];

type Task = {
  readonly id: string;
  readonly character: Character;
  readonly retry: StepRule['retry'];
  readonly timeoutMs: number;
};

const causes = ['failed', 'lost', 'timed_out'] as const;

function drawRetry(random: Random): StepRule['retry'] {
  const limit = random.chance(0.3) ? 0 : random.between(1, 3);
  const backoffMs = random.pick([0, 1_000, 3_000, 10_000]);
  const chosen = causes.filter(() => random.chance(0.5));
  return {
    limit,
    backoffMs,
    factor: random.between(1, 4),
    maxMs: backoffMs + random.pick([0, 5_000, 60_000]),
    on: chosen.length === 0 ? ['failed', 'timed_out'] : chosen,
  };
}

function drawTask(random: Random, id: string): Task {
  const character = random.pick(characters);
  const timeoutMs = character === 'steady' && random.chance(0.5) ? 3_600_000 : random.between(1, 40) * 1_000;
  return { id, character, retry: drawRetry(random), timeoutMs };
}

function writeTask({ character, retry, timeoutMs }: Task, random: Random): object {
  const { limit, backoffMs, factor, maxMs, on } = retry;
  const env = random.chance(0.15)
    ? { TOKEN: random.chance(0.5) ? { setting: 'token' } : { setting: 'token', default: 'x' } }
    : {};
  return {
    run: ['/bin/simulated', character],
    timeout: `${timeoutMs / 1_000}s`,
    grace: `${random.pick([0, 1, 5, 30])}s`,
    retry: { limit, backoff: `${backoffMs / 1_000}s`, factor, max: `${maxMs / 1_000}s`, on },
    env,
  };
}

type Shape = 'chain' | 'fan' | 'any';

/** Needs of each step, on earlier ones alone; the keys are not in that order. */
function drawNeeds(random: Random, keys: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const shape: Shape = random.pick(['chain', 'fan', 'any', 'any']);
  const needs = new Map<string, readonly string[]>();
  keys.forEach((key, index) => {
    const earlier = keys.slice(0, index);
    if (shape === 'chain') {
      needs.set(key, earlier.slice(-1));
    } else if (shape === 'fan') {
      needs.set(key, index === 0 ? [] : index === keys.length - 1 ? earlier.slice(1) : earlier.slice(0, 1));
    } else {
      needs.set(
        key,
        earlier.filter(() => random.chance(0.4)),
      );
    }
  });
  return needs;
}

export function drawPackage(random: Random, name: string, generation: number): SimulatedPackage {
  const tasks = Array.from({ length: random.between(1, 4) }, (_, index) => drawTask(random, `task-${index}`));
  const workflows: Record<string, object> = {};
  const rules = new Map<string, WorkflowRule>();
  for (let index = 0; index < random.between(1, 3); index += 1) {
    const id = `flow-${index}`;
    const letters = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].slice(0, random.chance(0.1) ? 8 : random.between(1, 4));
    const keys = letters.map((letter) => `${random.pick(['m', 'n', 'z'])}-${letter}`);
    const needs = drawNeeds(random, keys);
    const timeoutMs = random.chance(0.25) ? random.between(1, 60) * 1_000 : null;
    const concurrency = random.chance(0.3) ? random.between(1, 2) : null;
    const chosen = new Map(keys.map((key) => [key, random.pick(tasks)]));
    const steps = new Map<string, StepRule>(
      keys.map((key) => {
        const { id: taskId, retry, timeoutMs: taskTimeoutMs } = chosen.get(key)!;
        return [key, { key, taskId, needs: needs.get(key)!, retry, timeoutMs: taskTimeoutMs }];
      }),
    );
    rules.set(id, { id, steps, timeoutMs, concurrency });
    workflows[id] = {
      ...(timeoutMs === null ? {} : { timeout: `${timeoutMs / 1_000}s` }),
      ...(concurrency === null ? {} : { concurrency }),
      steps: Object.fromEntries(keys.map((key) => [key, { task: chosen.get(key)!.id, needs: needs.get(key)! }])),
    };
  }
  const manifest = {
    schema: 'qinglong/package@v1',
    name,
    version: `1.0.${generation}`,
    tasks: Object.fromEntries(tasks.map((task) => [task.id, writeTask(task, random)])),
    workflows,
  };
  const reading = readManifest(manifest);
  if ('mistakes' in reading) {
    throw new RangeError(`a random manifest is refused: ${JSON.stringify(reading.mistakes)}`);
  }
  const revision = materialize(reading.manifest, sha256(`${name}/${generation}/${random.fraction()}`));
  const handlers = tasks.filter(({ character }) => character === 'handler').map(({ id }) => `${name}/${id}`);
  return { name, revision, workflows: rules, handlerNames: handlers };
}

const calm: Behaviour = {
  spawnFailure: null,
  takeMs: 5,
  runMs: 1_000,
  exitCode: 0,
  signal: null,
  onTerm: 'dies',
  termMs: 100,
  killedAfterMs: null,
  drainMs: 0,
  isKilledWhole: false,
};

/** What one command of this character does. */
export function drawBehaviour(random: Random, character: string): Behaviour {
  const common: Behaviour = {
    ...calm,
    takeMs: random.pick([0, 5, 50, 500]),
    runMs: random.pick([0, 10, 1_000, random.between(1, 20_000)]),
    onTerm: random.pick(['dies', 'dies', 'exits', 'ignores']),
    termMs: random.pick([0, 100, 3_000]),
    drainMs: random.pick([0, 0, 50, 2_000]),
    isKilledWhole: random.chance(0.2),
  };
  switch (character) {
    case 'flaky':
      return {
        ...common,
        spawnFailure: random.chance(0.1) ? 'command_missing' : random.chance(0.1) ? 'resources_exhausted' : null,
        exitCode: random.chance(0.5) ? random.pick([1, 2, 126]) : 0,
        signal: random.chance(0.1) ? 'SIGSEGV' : null,
        killedAfterMs: random.chance(0.15) ? random.between(0, 2_000) : null,
      };
    case 'slow':
      return { ...common, runMs: random.between(5_000, 90_000), exitCode: random.chance(0.2) ? 3 : 0 };
    case 'endless':
      return { ...common, runMs: null };
    case 'stubborn':
      return { ...common, runMs: random.between(1_000, 120_000), onTerm: 'ignores' };
    case 'doomed':
      return { ...common, exitCode: 1 };
    default:
      return common;
  }
}
