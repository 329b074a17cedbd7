// What `npm run stress` does, in small: the runtime is killed at random, runs are cancelled against their end, commands
// flood their output. A seed that finds something is in the message.
import t from 'tap';
import { createRandom, drawSeed } from '../../edge-evidence/random.ts';
import { stressCancels } from '../../edge-evidence/stress/cancels.ts';
import { stressKills } from '../../edge-evidence/stress/kills.ts';
import { stressOutputs } from '../../edge-evidence/stress/outputs.ts';

const note = () => {};
const seed = drawSeed();
const random = createRandom(seed);

for (const profile of ['edge', 'standalone'] as const) {
  t.test(`${profile}: the runtime is killed again and again, and the records say what the commands did`, async (t) => {
    const { differences, kills, commands } = await stressKills({ profile, kills: 12, random, note });
    t.same(differences, [], `seed ${seed}`);
    t.equal(kills, 12);
    t.ok(commands > 0);
  });

  t.test(`${profile}: hostile output leaves the runtime as small as it was, and is counted`, async (t) => {
    const { differences, figures } = await stressOutputs({ profile, scale: 0.05, note });
    t.same(differences, []);
    t.equal(figures.length, 6);
  });
}

t.test('edge: runs cancelled at the moment of their end have one end', async (t) => {
  const { differences, cancels } = await stressCancels({ profile: 'edge', cancels: 20, random, note });
  t.same(differences, [], `seed ${seed}`);
  t.equal(cancels, 20);
});
