// What admitting, advancing and listing cost with 100,000 finished runs against 1,000, each asked once in a fresh
// process.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { Site } from '../../stress/site.ts';
import { type Bench, durabilityOf, interleave, profileRow, withPlace } from '../bench-run.ts';
import { atMost, type Figure, makeFigure, type Profile } from '../figure.ts';
import { copyFinishedRuns } from '../finished-runs.ts';
import { libraryFile, programFile } from '../programs.ts';

const questions = ['admit', 'advance', 'list'] as const;
const few = 1_000;
const many = 100_000;

/** Takes everything that no process holds out of the kernel's page cache; false where only root may. */
export function dropCaches(): boolean {
  spawnSync('sync');
  try {
    writeFileSync('/proc/sys/vm/drop_caches', '1');
    return true;
  } catch {
    return false;
  }
}

/** Milliseconds of one question. The process has opened the directory; what it read for that is in its memory. */
async function ask(bench: Bench, site: Site, question: string): Promise<number> {
  const options = {
    library: libraryFile(bench),
    data: site.data,
    runDirectory: site.run,
    durability: durabilityOf[site.profile],
    question,
  };
  const child = spawn(process.execPath, [programFile('one-question.cjs'), JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const closed = once(child, 'close');
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  await Promise.race([once(child.stdout, 'data'), closed]);
  dropCaches();
  child.stdin.on('error', () => {});
  child.stdin.end('go\n');
  await closed;
  return (JSON.parse(out.trimEnd().split('\n').at(-1) ?? 'null') as { readonly ms: number }).ms;
}

async function measureScale(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  return withPlace(bench, async (place) => {
    const small = await copyFinishedRuns(bench, { place, runs: few, profile });
    const large = await copyFinishedRuns(bench, { place, runs: many, profile });
    bench.note(`${profile}: ${questions.join(', ')} with ${many} finished runs`);
    const isCold = dropCaches();
    const figures: Figure[] = [];
    for (const question of questions) {
      const samples = await interleave(2 * bench.repeats, {
        small: () => ask(bench, small, question),
        large: () => ask(bench, large, question),
      });
      figures.push(
        makeFigure({
          name: `${question} with ${many.toLocaleString('en')} finished runs`,
          profile,
          unit: 'ms',
          values: samples.large,
          floors: samples.small,
          budget: (floor) => atMost(floor * 1.2, `1.2 x the same with ${few.toLocaleString('en')}`),
          note: isCold
            ? 'the first such question of a process, the page cache dropped before it'
            : "the first such question of a process; the kernel's page cache is warm: dropping it needs root",
        }),
      );
    }
    return figures;
  });
}

export const scaleRow = profileRow('scale', measureScale);
