// Small operations of the shipped bundle, killed at every call, and with the power cut at every point; and controls,
// which have to fail. The whole of it is `npm run evidence`. Needs a C compiler.
import { mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { exhaustSubject } from '../../edge-evidence/exhaustive/exhaust.ts';
import type { Mode } from '../../edge-evidence/operation.ts';
import { losePower } from '../../edge-evidence/power-loss/lose-power.ts';
import { buildShim, noShim } from '../../edge-evidence/recorder/shim.ts';
import { subjectOf } from '../../edge-evidence/recorder/subjects.ts';
import { clearFolder } from '../../edge-evidence/site-copy.ts';

const bundle = join(import.meta.dirname, '../../dist/qinglong-edge.cjs');
const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'cut-operation-')));
const shim = buildShim(scratch);
const skip = shim === null ? noShim : false;
const seed = 7;
const bounds = { ripe: { drawnMax: 20, edgesMax: 60 }, between: { drawnMax: 1, edgesMax: 2 } };

t.teardown(() => clearFolder(scratch));

function subject(operationName: string, mode: Mode, weakened?: string) {
  const preload = join(import.meta.dirname, '../../edge-evidence/power-loss/weaken.ts');
  const name = `${operationName}-${mode}-${weakened ?? ''}`;
  const more =
    weakened === undefined ? {} : { nodeArgs: ['--import', preload], env: { QLE_WEAKENED_SYNCHRONOUS: weakened } };
  return subjectOf({ operationName, mode, bundle, shim: `${shim}`, seed, scratch: join(scratch, name), ...more });
}

t.test('killed at any call, a key is trusted or not, and can be added again', { skip }, async (t) => {
  for (const mode of ['delete-extra', 'wal-full'] as const) {
    const { failures, figures } = await exhaustSubject({
      subject: subject('publisher-add', mode),
      returnsMax: 2,
      realKills: 1,
    });
    t.same(failures, []);
    t.match(figures, { commits: 1, carriedOn: 2, realKills: 1 });
    t.ok(figures['windows']! > figures['calls']!);
  }
});

t.test('a power cut at any point leaves a package installed or not, and never half', { skip }, async (t) => {
  for (const mode of ['delete-extra', 'wal-full'] as const) {
    const cut = { subject: subject('package-install', mode), control: null, seed, ...bounds, returns: 1 };
    const { passed, failures, figures } = await losePower(cut);
    t.same(failures, []);
    t.ok(passed);
    t.match(figures, { disksWithLostCommits: 0, carriedOn: 1 });
    t.ok(figures['distinctDisks']! > 100, `${figures['distinctDisks']} disks`);
  }
});

t.test('delete-full loses an acknowledged commit to a power cut, and nothing else', { skip }, async (t) => {
  const cut = { subject: subject('publisher-add', 'delete-full'), control: null, seed, ...bounds, returns: 0 };
  const { failures, figures } = await losePower(cut);
  t.same(failures, []);
  t.ok(figures['disksWithLostCommits']! > 0);
});

t.test('with a weaker synchronous than is offered, the same power cuts are too much', { skip }, async (t) => {
  for (const [mode, synchronous, says] of [
    ['delete-extra', 'OFF', /malformed|no commit|gone/],
    ['delete-extra', 'FULL', /acknowledged commits are gone/],
    ['wal-full', 'NORMAL', /acknowledged commits are gone/],
  ] as const) {
    const control = { control: `synchronous ${synchronous}`, seed, ...bounds, returns: 0 };
    const { passed, isControl, failures } = await losePower({
      subject: subject('publisher-add', mode, synchronous),
      ...control,
    });
    t.match(failures.join('\n'), says);
    t.ok(passed && isControl, 'a control passes by failing');
  }
});
