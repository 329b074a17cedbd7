// Run as a process of its own, to be raced or killed: fetches the package of the run in its third argument from the
// database in its first into the packages directory in its second. Says `begun` after the first file, and waits until
// it may go on.
import { once } from 'node:events';
import { openLeases, openPostgresStore } from '../../src/postgres.ts';
import { bringPackage } from '../../src/runtime/cluster-packages.ts';
import { createPackageGuard } from '../../src/runtime/package-guard.ts';
import { realAlarm, realClock, realIds } from '../../src/runtime/ports.ts';

const [url, packagesDirectory, runId] = process.argv.slice(2) as [string, string, string];
const clock = realClock();
const ports = { clock, alarm: realAlarm(clock), ids: realIds(clock) };
const store = await openPostgresStore({ ...ports, url, trustedFromMs: 0, report: { failed: () => {} } });
const leases = openLeases({ ...ports, url, leaseMs: 600_000 });
let count = 0;
const gated = {
  putContents: leases.putContents,
  async getContents(lockDigest: string, path: string) {
    count += 1;
    if (count === 2) {
      process.stdout.write('begun\n');
      await once(process.stdin, 'end');
    }
    return leases.getContents(lockDigest, path);
  },
};
process.stdin.resume();
const guard = createPackageGuard({ packagesDirectory, clock });
await bringPackage({ store, leases: gated, packagesDirectory, guard, underWay: new Map() }, runId);
process.stdout.write(`fetched ${count}\n`);
await leases.close();
await store.close();
