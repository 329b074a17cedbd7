// A small storm; `npm run storm` is the long one.
import t from 'tap';
import { drawSeed } from '../../edge-evidence/random.ts';
import { runStorm } from './storm.ts';

t.test('runtimes are killed and cut off while they share runs: every run ends right, nothing runs twice', async (t) => {
  const seed = drawSeed();
  t.comment(`seed ${seed}`);
  const { runs, commands, kills, differences } = await runStorm({
    count: 27,
    seed,
    runtimes: 3,
    concurrency: 4,
    killEveryMs: 1_500,
    isBundled: true,
    secondsMax: 240,
    log: () => {},
  });
  t.same(differences, []);
  t.equal(runs, 27);
  t.ok(commands > runs);
  t.ok(kills > 0, 'some were killed');
});
