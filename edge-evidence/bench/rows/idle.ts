// What an idle daemon does in twenty seconds, also while it watches a command that an earlier one left running. All of
// them idle at the same time, beside bare Node; first their wake-ups are counted from outside, then their system calls.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readActivity } from '../../process-io.ts';
import { askDaemon, type Site } from '../../stress/site.ts';
import { type Bench, type Row, withPlace } from '../bench-run.ts';
import { atMost, type Figure, makeFigure, type Profile } from '../figure.ts';
import { hasStrace, type Idling, runBundle, siteIn, startFloor, startServe, writePackage } from '../programs.ts';
import { attachTo, countCalls, readCalls } from '../strace.ts';
import { waitUntil } from '../waiting.ts';

const windowMs = 20_000;
/** After a second without work the daemon gives memory back, and V8 looks at its heap 8 s after the last change. */
const settleMs = 12_000;

type Idler = { readonly idling: Idling; readonly profile: Profile; readonly kind: 'idle' | 'watching' | 'floor' };
type Doings = { readonly wakeUps: number; readonly writes: number };

/** Times that any thread of a process was woken or made to wait, and calls that wrote something. */
function readDoings(pid: number): Doings {
  return {
    wakeUps: readActivity(pid).contextSwitches,
    writes: Number(/^syscw: (\d+)/m.exec(readText(`/proc/${pid}/io`))?.[1]),
  };
}

function readText(file: string): string {
  return readFileSync(file, 'latin1');
}

/** A daemon that found a running command when it came, left by one that was killed. */
async function startWatching(bench: Bench, site: Site, place: string): Promise<Idling> {
  const directory = writePackage(join(place, `package-${site.profile}`), {
    name: 'resting',
    tasks: { rest: { run: ['/bin/sleep', '600'], grace: '1s' } },
    workflows: { main: { steps: { a: { task: 'rest' } } } },
  });
  await runBundle(bench, site, ['package', 'install', directory]);
  const first = await startServe(bench, site);
  const request = { packageName: 'resting', workflowId: 'main', idempotencyKey: null, requestedBy: 'bench' };
  await askDaemon(site, '/v1/runs', request);
  await waitForCommand(site);
  await first.end('SIGKILL');
  return startServe(bench, site);
}

/** Until the command of the site's only attempt has begun. */
async function waitForCommand({ run }: Site): Promise<void> {
  const hasBegun = () => {
    try {
      return readdirSync(join(run, 'attempts')).some((id) => readdirSync(join(run, 'attempts', id)).includes('alive'));
    } catch {
      return false;
    }
  };
  await waitUntil(hasBegun, { what: 'the start of a command' });
}

async function countInWindow({ pid }: Idling, file: string): Promise<number> {
  const [program = '', ...args] = attachTo(pid, file);
  const tracer = spawn(program, args, { stdio: 'ignore' });
  await sleep(windowMs);
  tracer.kill('SIGINT');
  await once(tracer, 'close');
  return countCalls(readText(file));
}

type Looked = Idler & Doings & { readonly calls: number | null; readonly detail: string };

async function lookAtAll(bench: Bench, idlers: readonly Idler[], place: string): Promise<readonly Looked[]> {
  await sleep(settleMs);
  const before = idlers.map(({ idling }) => readDoings(idling.pid));
  await sleep(windowMs);
  const after = idlers.map(({ idling }) => readDoings(idling.pid));
  const fileOf = ({ profile, kind }: Idler) => join(place, `calls-${profile}-${kind}`);
  const calls = hasStrace()
    ? await Promise.all(idlers.map((idler) => countInWindow(idler.idling, fileOf(idler))))
    : null;
  if (calls === null) {
    bench.skip('idle: system calls', 'strace is not here, or may not trace; wake-ups are counted all the same');
  }
  return idlers.map((idler, index) => ({
    ...idler,
    wakeUps: (after[index]?.wakeUps ?? Number.NaN) - (before[index]?.wakeUps ?? Number.NaN),
    writes: (after[index]?.writes ?? Number.NaN) - (before[index]?.writes ?? Number.NaN),
    calls: calls?.[index] ?? null,
    detail: calls === null ? '' : [...readCalls(readText(fileOf(idler)))].map(([name, n]) => `${n} ${name}`).join(', '),
  }));
}

function makeFigures(looked: readonly Looked[]): readonly Figure[] {
  return looked
    .filter(({ kind }) => kind !== 'floor')
    .flatMap(({ kind, profile, wakeUps, writes, calls, detail }) => {
      const floor = looked.find((other) => other.kind === 'floor' && other.profile === profile);
      const what = kind === 'idle' ? 'idle 20 s' : 'watching an adopted command 20 s';
      const budget = () => atMost(0, '0');
      const note = `one repetition: it is long; ${settleMs / 1000} s after the start`;
      const counted =
        calls === null
          ? []
          : [
              makeFigure({
                name: `${what}: system calls`,
                profile,
                unit: 'calls',
                values: [calls],
                floors: [floor?.calls ?? Number.NaN],
                budget,
                note: detail === '' ? note : `${note}; ${detail}`,
              }),
            ];
      return [
        ...counted,
        makeFigure({
          name: `${what}: wake-ups`,
          profile,
          unit: 'switches',
          values: [wakeUps],
          floors: [floor?.wakeUps ?? Number.NaN],
          budget,
          note,
        }),
        makeFigure({ name: `${what}: writes`, profile, unit: 'calls', values: [writes], budget, note }),
      ];
    });
}

async function collect(bench: Bench): Promise<readonly Figure[]> {
  return withPlace(bench, async (place) => {
    bench.skip('idle with schedules', 'this version has no schedules');
    bench.note(`idle: ${(settleMs + 2 * windowMs) / 1000} s of nothing`);
    const idlers: Idler[] = [];
    for (const profile of bench.profiles) {
      const idle = siteIn(place, `idle-${profile}`, profile);
      await runBundle(bench, idle, ['serve', '--until-idle']);
      const watching = siteIn(place, `watching-${profile}`, profile);
      idlers.push(
        { profile, kind: 'idle', idling: await startServe(bench, idle) },
        { profile, kind: 'watching', idling: await startWatching(bench, watching, place) },
        { profile, kind: 'floor', idling: await startFloor(idle) },
      );
    }
    const looked = await lookAtAll(bench, idlers, place);
    await Promise.all(idlers.map(({ idling }) => idling.end()));
    return makeFigures(looked);
  });
}

export const idleRow: Row = { name: 'idle', collect };
