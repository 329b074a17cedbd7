import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { createPackageHolders } from '../../src/runtime/package-holders.ts';

t.test('only the end of the last run that was found is worth another look', async (t) => {
  const holders = createPackageHolders();
  t.notOk(holders.ended('run-1'), 'nothing was looked at yet');
  const isStale = await holders.look(async (hold) => ['run-1', 'run-2'].forEach(hold));
  t.notOk(isStale);
  t.notOk(holders.ended('other'));
  t.notOk(holders.ended('run-1'));
  t.ok(holders.ended('run-2'));
  t.notOk(holders.ended('run-2'), 'once');
});

t.test('runs that end during a look are not waited for; where all have, there is another look', async (t) => {
  const holders = createPackageHolders();
  const isStale = await holders.look(async (hold) => {
    hold('run-1');
    hold('run-2');
    holders.ended('run-1');
  });
  t.notOk(isStale);
  t.ok(holders.ended('run-2'));
  const isAllOver = await holders.look(async (hold) => {
    hold('run-3');
    holders.ended('run-3');
  });
  t.ok(isAllOver);
  t.notOk(await holders.look(async () => {}));
});

t.test('no more runs are remembered than a page has', async (t) => {
  const holders = createPackageHolders();
  const runIds = Array.from({ length: limits.pageMax + 10 }, (_, index) => `run-${index}`);
  await holders.look(async (hold) => runIds.forEach(hold));
  t.strictSame(
    runIds.map((runId) => holders.ended(runId)).indexOf(true),
    limits.pageMax - 1,
    'the next look finds the others',
  );
});

t.test('a look that fails leaves what was remembered', async (t) => {
  const holders = createPackageHolders();
  await holders.look(async (hold) => hold('run-1'));
  await t.rejects(
    holders.look(async () => {
      throw new RangeError('no');
    }),
  );
  t.ok(holders.ended('run-1'));
});
