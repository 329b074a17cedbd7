// `status` of a shared database: who carries its runs on, and how many there are. What one machine runs, and its files,
// are that machine's own affair.
import { limits } from '../core/limits.ts';
import { read, type SetAside } from '../protocol/reads.ts';
import type { WorkerState } from '../store/leases.ts';
import type { StoreInfo } from '../store/store.ts';
import { type Cell, formatPairs, formatTable } from './columns.ts';
import type { Context } from './command.ts';
import { exitCodes } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { readSettings } from './session.ts';
import { placeOf, type SharedPlace } from './shared-place.ts';
import { leaseMsDefault, openPorts } from './shared-session.ts';

type Facts = {
  readonly info: StoreInfo;
  readonly runningCount: number;
  readonly setAside: readonly SetAside[];
  readonly setAsideCount: number;
  readonly runtimes: readonly WorkerState[];
};

export async function statusCommand(context: Context): Promise<number> {
  const { output } = context;
  const place = placeOf(context);
  const { info, runningCount, setAside, setAsideCount, runtimes } = await collect(context, place);
  if (output.isJson) {
    const { engine, capability } = info;
    const runs = { running: runningCount, setAside: setAsideCount };
    const facts = { store: place.name, engine, capability, runs, setAside, runtimes };
    output.printJson({ schema: 'qinglong/cluster-status@v1', ...facts });
  } else {
    output.print(...toText(context, place, { info, runningCount, setAside, setAsideCount, runtimes }));
  }
  return exitCodes.done;
}

async function collect(context: Context, place: SharedPlace): Promise<Facts> {
  const ports = openPorts(await readSettings(context));
  const store = await place.openStore(ports, context.output.note);
  const leases = place.openLeases(ports, leaseMsDefault);
  try {
    return {
      info: store.info,
      ...(await store.read(read('runCounts', {}))),
      setAside: await store.read(read('allSetAside', { limit: limits.pageMax })),
      runtimes: await leases.workers(),
    };
  } finally {
    await leases.close();
    await store.close();
  }
}

function toText({ output, self }: Context, { name }: SharedPlace, facts: Facts): readonly string[] {
  const { info, runningCount, runtimes } = facts;
  const nobody: Cell = { text: `none: runs move only while one serves: ${self} serve`, tone: 'yellow' };
  const pairs: readonly (readonly [string, Cell | null])[] = [
    ['store', `${name} (${info.engine})`],
    ['runs', `${runningCount} running`],
    ['set aside', asideCell(facts)],
    ['runtimes', runtimes.length === 0 ? nobody : `${runtimes.length}`],
  ];
  const rows = runtimes.map(({ workerId, described, runs }) => [workerId, `${runs}`, neutralize(described)]);
  const table = rows.length === 0 ? [] : ['', ...formatTable(['RUNTIME', 'RUNS', 'WHERE'], rows, output.paint)];
  return [...formatPairs(pairs, output.paint), ...table];
}

function asideCell({ setAside, setAsideCount }: Facts): Cell | null {
  const [first] = setAside;
  if (first === undefined) {
    return null;
  }
  const more = setAsideCount === 1 ? '' : ` and ${setAsideCount - 1} more`;
  return { text: `${first.runId} (${neutralize(first.summary)})${more}; look at it with \`verify\``, tone: 'red' };
}
