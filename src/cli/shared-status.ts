// `status` of a shared database: who carries its runs on, and how many there are. What one machine runs, and its files,
// are that machine's own affair.
import { limits } from '../core/limits.ts';
import { read } from '../protocol/reads.ts';
import { type Cell, formatPairs, formatTable } from './columns.ts';
import type { Context } from './command.ts';
import { exitCodes } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { readSettings } from './session.ts';
import { placeOf } from './shared-place.ts';
import { leaseMsDefault, openPorts } from './shared-session.ts';

export async function statusCommand(context: Context): Promise<number> {
  const { output, self } = context;
  const place = placeOf(context);
  const ports = openPorts(await readSettings(context));
  const store = await place.openStore(ports, output.note);
  const leases = place.openLeases(ports, leaseMsDefault);
  try {
    const { runningCount, setAsideCount } = await store.read(read('runCounts', {}));
    const setAside = await store.read(read('allSetAside', { limit: limits.pageMax }));
    const runtimes = await leases.workers();
    const { engine, capability } = store.info;
    if (output.isJson) {
      const runs = { running: runningCount, setAside: setAsideCount };
      output.printJson({
        schema: 'qinglong/cluster-status@v1',
        store: place.name,
        engine,
        capability,
        runs,
        setAside,
        runtimes,
      });
      return exitCodes.done;
    }
    const nobody: Cell = { text: `none: runs move only while one serves: ${self} serve`, tone: 'yellow' };
    const [first] = setAside;
    const aside = `${first?.runId} (${neutralize(first?.summary ?? '')})${setAsideCount > 1 ? ` and ${setAsideCount - 1} more` : ''}`;
    output.print(
      ...formatPairs(
        [
          ['store', `${place.name} (${engine})`],
          ['runs', `${runningCount} running`],
          ['set aside', first === undefined ? null : { text: `${aside}; look at it with \`verify\``, tone: 'red' }],
          ['runtimes', runtimes.length === 0 ? nobody : `${runtimes.length}`],
        ],
        output.paint,
      ),
    );
    const rows = runtimes.map(({ workerId, described, runs }) => [workerId, `${runs}`, neutralize(described)]);
    output.print(...(rows.length === 0 ? [] : ['', ...formatTable(['RUNTIME', 'RUNS', 'WHERE'], rows, output.paint)]));
    return exitCodes.done;
  } finally {
    await leases.close();
    await store.close();
  }
}
