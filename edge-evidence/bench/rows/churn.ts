// What a daemon's memory does over a thousand workflows, and when they are over.
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EdgeError } from '../../../src/core/errors.ts';
import { askDaemon, type Site } from '../../stress/site.ts';
import { type Bench, profileRow, withPlace } from '../bench-run.ts';
import { atMost, type Figure, makeFigure, type Profile } from '../figure.ts';
import { residentKib, runBundle, siteIn, startFloor, startServe, writePackage } from '../programs.ts';
import { waitUntil } from '../waiting.ts';

const workflows = 1_000;
const askedAtOnce = 16;
const idleMs = 2_000;
/** V8 looks at its heap when nothing has happened for 8 s. */
const afterMs = 10_000;

/** Each workflow leaves one byte in a file, so that nobody has to ask the daemon how far it is. */
function writeNotingPackage(place: string, file: string): string {
  const note = { run: ['/bin/sh', '-c', 'printf x >>"$FILE"'], env: { FILE: file } };
  return writePackage(join(place, 'package'), {
    name: 'noting',
    tasks: { note },
    workflows: { main: { steps: { a: { task: 'note' } } } },
  });
}

async function startWorkflows(site: Site): Promise<void> {
  const request = { packageName: 'noting', workflowId: 'main', idempotencyKey: null, requestedBy: 'bench' };
  for (let asked = 0; asked < workflows; asked += askedAtOnce) {
    const count = Math.min(askedAtOnce, workflows - asked);
    const answers = await Promise.all(Array.from({ length: count }, () => askDaemon(site, '/v1/runs', request)));
    const refused = answers.find(({ document }) => document['kind'] !== 'created');
    if (refused !== undefined) {
      throw new EdgeError('unavailable', `a workflow was not started: ${JSON.stringify(refused.document)}`, {
        hint: 'look at the daemon',
      });
    }
  }
}

function waitForAll(file: string): Promise<void> {
  const hasAll = () => existsSync(file) && statSync(file).size >= workflows;
  return waitUntil(hasAll, { what: 'the end of all workflows', everyMs: 100 });
}

async function measureProfile(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  return withPlace(bench, async (place) => {
    bench.note(`${profile}: ${workflows} workflows`);
    const site = siteIn(place, 'site', profile);
    const file = join(place, 'noted');
    await runBundle(bench, site, ['package', 'install', writeNotingPackage(place, file)]);
    const bare = await startFloor(site);
    const daemon = await startServe(bench, site);
    await sleep(idleMs);
    const floorKib = residentKib(bare.pid);
    const idleKib = residentKib(daemon.pid);
    await startWorkflows(site);
    await waitForAll(file);
    const peakKib = residentKib(daemon.pid, 'VmHWM');
    await sleep(afterMs);
    const afterKib = residentKib(daemon.pid);
    await bare.end();
    await daemon.end();
    const note = 'one repetition: it is long';
    return [
      makeFigure({
        name: `peak over ${workflows.toLocaleString('en')} workflows`,
        profile,
        unit: 'KiB',
        values: [peakKib],
        floors: [floorKib],
        budget: (floor) => atMost(floor + 20 * 1024, 'floor + 20 MiB'),
        note: `${note}; all of them were queued at once`,
      }),
      makeFigure({
        name: 'after them',
        profile,
        unit: 'KiB',
        values: [afterKib],
        floors: [idleKib],
        budget: (floor) => atMost(floor + 3 * 1024, 'idle before them + 3 MiB'),
        note: `${note}; the floor is this daemon before them; ${afterMs / 1000} s later`,
      }),
    ];
  });
}

export const churnRow = profileRow('churn', measureProfile);
