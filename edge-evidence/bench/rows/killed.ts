// From SIGKILL of the runtime to its workflows going on: a command ends while nobody is there, the next daemon is
// started at once, and the next step says when it begins.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { askDaemon } from '../../stress/site.ts';
import { type Bench, interleave, profileRow, withPlace } from '../bench-run.ts';
import { atMost, makeFigure, type Profile } from '../figure.ts';
import { runBundle, siteIn, startServe, writePackage } from '../programs.ts';

type Recovery = { readonly goesOnMs: number; readonly readyMs: number };

/** Step `a` says that it is there and waits at the gate; `b` says that it is there. */
function writeGatedPackage(place: string, fifos: { readonly said: string; readonly gate: string }): string {
  const env = { SAID: fifos.said, GATE: fifos.gate };
  return writePackage(join(place, 'package'), {
    name: 'gated',
    tasks: {
      wait: { run: ['/bin/sh', '-c', 'echo a >"$SAID"; read -r word <"$GATE"'], env },
      say: { run: ['/bin/sh', '-c', 'echo b >"$SAID"'], env },
    },
    workflows: { main: { steps: { a: { task: 'wait' }, b: { task: 'say', needs: ['a'] } } } },
  });
}

/** Opened for both, a FIFO takes a word whether or not somebody reads. */
function openGate(fifo: string): void {
  const descriptor = openSync(fifo, constants.O_RDWR);
  writeSync(descriptor, 'go\n');
  // Closed when the reader has it; a FIFO that nobody has open forgets what was written.
  setTimeout(() => closeSync(descriptor), 2_000);
}

async function killOnce(bench: Bench, profile: Profile): Promise<Recovery> {
  return withPlace(bench, async (place) => {
    const fifos = { said: join(place, 'said'), gate: join(place, 'gate') };
    spawnSync('mkfifo', [fifos.said, fifos.gate]);
    const site = siteIn(place, 'site', profile);
    await runBundle(bench, site, ['package', 'install', writeGatedPackage(place, fifos)]);
    const first = await startServe(bench, site);
    const begun = readFile(fifos.said);
    const request = { packageName: 'gated', workflowId: 'main', idempotencyKey: null, requestedBy: 'bench' };
    await askDaemon(site, '/v1/runs', request);
    await begun;
    const goesOn = readFile(fifos.said);
    const gone = once(first.process, 'close');
    const killedAtMs = performance.now();
    first.process.kill('SIGKILL');
    openGate(fifos.gate);
    await gone;
    const second = await startServe(bench, site);
    await goesOn;
    const goesOnMs = performance.now() - killedAtMs;
    await second.end();
    return { goesOnMs, readyMs: second.readyMs };
  });
}

export const killedRow = profileRow('killed', async (bench, profile) => {
  bench.note(`${profile}: SIGKILL of the runtime`);
  const { killed } = await interleave(bench.repeats, { killed: () => killOnce(bench, profile) });
  return [
    makeFigure({
      name: 'SIGKILL of the runtime to its workflows going on',
      profile,
      unit: 'ms',
      values: killed.map(({ goesOnMs }) => goesOnMs),
      floors: killed.map(({ readyMs }) => readyMs),
      budget: (floor) => atMost(floor + 500, 'start + 0.5 s'),
      note: 'the floor is the start to ready of the same daemon, which is started at once',
    }),
  ];
});
