// Field cases: cancel and retry. A cancel against everything that it may race with; what it means to the next process.
import { join } from 'node:path';
import t from 'tap';
import { createRandom, drawSeed } from '../../edge-evidence/random.ts';
import { stressCancels } from '../../edge-evidence/stress/cancels.ts';
import { askJson } from '../http/scene.ts';
import { attemptDirectories, cli, createSite, startCli } from '../product/product.ts';
import {
  commandsOf,
  follow,
  install,
  kill,
  linesOf,
  makeGate,
  packageOf,
  profiles,
  serve,
  show,
  startRun,
  statesOf,
  stop,
  wrote,
} from './scene.ts';

const seed = drawSeed();

for (const profile of profiles) {
  t.test(
    `C051: ${profile}, 100 cancels at the moment of exit 0: one end each, and nothing starts after the answer`,
    async (t) => {
      const random = createRandom(seed);
      const { differences, cancels, cancelled, settled } = await stressCancels({
        profile,
        cancels: 100,
        random,
        note: () => {},
      });
      t.same(differences, [], `seed ${seed}`);
      t.equal(cancels, 100);
      t.ok(cancelled > 0 && settled > 0, `both sides of the moment were met: ${cancelled} and ${settled}`);
    },
  );
}

const stubborn = 'trap "" TERM; echo begin >>"$ROOT/trace"; while :; do sleep 0.05; done';
const gated = 'echo begin >>"$ROOT/trace"; read x <"$ROOT/gate"; echo end >>"$ROOT/trace"';

for (const profile of profiles) {
  for (const [what, shell] of Object.entries({ 'that obeys': gated, 'that ignores TERM': stubborn })) {
    t.test(
      `C053: ${profile}, a cancel, and the daemon is killed at once: a command ${what} is gone, the run cancelled`,
      async (t) => {
        const site = createSite(t);
        makeGate(t, site);
        const steps = { a: { shell, grace: '250ms' }, b: { shell: 'echo b >>"$ROOT/trace"', needs: ['a'] } };
        await install(t, site, profile, packageOf(site, steps));
        await install(t, site, profile, packageOf(site, { a: { shell: 'true' } }, { name: 'next' }));
        const daemon = await serve(t, site);
        const runId = await startRun(t, site);
        await wrote(site, 'trace');
        const answer = await askJson(join(site.run, 'sock'), `/v1/runs/${runId}/cancel`, { requestedBy: 'test' });
        await kill(daemon);
        t.same(answer.document, { kind: 'requested' });
        const second = await serve(t, site);
        const shown = await follow(t, site, runId);
        t.equal(shown.run.status, 'cancelled');
        t.match(shown.run, { cancelReason: 'user' });
        t.same(statesOf(shown), { a: ['cancelled', 1], b: ['cancelled', 0] });
        t.same(linesOf(site, 'trace'), ['begin']);
        t.same(commandsOf(site), []);
        t.same(attemptDirectories(site), []);
        const next = await follow(t, site, await startRun(t, site, 'next/main'));
        t.equal(next.run.status, 'succeeded', 'the slot is free');
        await stop(t, second);
      },
    );
  }

  t.test(
    `C053: ${profile}, the daemon was killed and the run cancelled before the next one: the same end`,
    async (t) => {
      const site = createSite(t);
      makeGate(t, site);
      await install(t, site, profile, packageOf(site, { a: { shell: gated, grace: '250ms' } }));
      const daemon = await serve(t, site);
      const runId = await startRun(t, site);
      await wrote(site, 'trace');
      await kill(daemon);
      // Without a holder the command itself stops what runs, and stays until that is over.
      const cancelled = await cli(t, site, 'runs', 'cancel', runId);
      t.equal(cancelled.code, 0, cancelled.err);
      t.same(commandsOf(site), []);
      const shown = await show(t, site, runId);
      t.equal(shown.run.status, 'cancelled');
      t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
      t.equal((await show(t, site, runId)).run.version, shown.run.version, 'and nothing changes later');
    },
  );

  t.test(
    `C053: ${profile}, a cancel is killed on its way: the run is cancelled, or as if nobody had asked`,
    async (t) => {
      const site = createSite(t);
      const gate = makeGate(t, site);
      await install(t, site, profile, packageOf(site, { a: { shell: gated, grace: '250ms' } }));
      const daemon = await serve(t, site);
      const runId = await startRun(t, site);
      await wrote(site, 'trace');
      const asked = startCli(t, site, ['runs', 'cancel', runId]);
      await kill(asked);
      await kill(daemon);
      const isDurable = (await show(t, site, runId)).run.cancelRequestedAtMs !== null;
      gate.open();
      t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
      const shown = await show(t, site, runId);
      t.equal(shown.run.status, isDurable ? 'cancelled' : 'succeeded');
      t.same(commandsOf(site), []);
    },
  );
}
