// Manifests that tests share, and the mistakes of one as short lines.
import { readManifest } from '../../src/core/manifest.ts';
import type { Manifest } from '../../src/core/revision.ts';

type Entry = Readonly<Record<string, unknown>>;

/** A manifest as it is parsed: one task, one workflow with one step; `changes` replaces keys of the package. */
export function sampleManifest(changes: Entry = {}): Entry {
  return {
    schema: 'qinglong/package@v1',
    name: 'wan-watch',
    version: '1.2.0',
    tasks: { probe: { run: ['ping', '-c', '1', '192.0.2.1'] } },
    workflows: { nightly: { steps: { probe: { task: 'probe' } } } },
    ...changes,
  };
}

/** The same with these fields of its task; `run` is replaced where `shell` is given. */
export function withTask(fields: Entry): Entry {
  const run = Object.hasOwn(fields, 'shell') ? {} : { run: ['true'] };
  return sampleManifest({ tasks: { probe: { ...run, ...fields } } });
}

/** The same with a workflow of these steps, all of the one task: step keys and what each needs. */
export function withSteps(needs: Readonly<Record<string, readonly string[]>>): Entry {
  const steps = Object.entries(needs).map(([key, list]) => [key, { task: 'probe', needs: list }]);
  return sampleManifest({ workflows: { nightly: { steps: Object.fromEntries(steps) } } });
}

/** `path: rule` of every mistake; none for a good manifest. */
export function mistakesOf(value: unknown): readonly string[] {
  const reading = readManifest(value);
  return 'mistakes' in reading ? reading.mistakes.map(({ path, rule }) => `${path}: ${rule}`) : [];
}

/** The manifest of what is known to be good. */
export function acceptedManifest(value: unknown): Manifest {
  const reading = readManifest(value);
  if ('mistakes' in reading) {
    throw new AggregateError(mistakesOf(value), `refused: ${mistakesOf(value).join('; ')}`);
  }
  return reading.manifest;
}
