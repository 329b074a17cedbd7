import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import type { PackageSetting } from '../../src/core/package-setting.ts';
import { changeSetting } from '../../src/protocol/package-setting.ts';
import type { PackageHead } from '../../src/protocol/reads.ts';
import { sampleRevision } from '../contract/world.ts';

const env = { TOKEN: { setting: 'API_TOKEN', default: null } };
// Nothing else of a head decides about settings.
const head = { revision: sampleRevision({ task: { env } }) } as PackageHead;
const now = { wallMs: 7, uptimeMs: 1, bootId: 'boot-1' };

function setTo(name: string, value: string): PackageSetting {
  return { name, value, salt: 'a'.repeat(32), updatedAtMs: 1 };
}

function decide(settings: readonly PackageSetting[], name: string, value: string | null) {
  const input = { projectId: 'local', packageName: 'sample', name, value, salt: 'b'.repeat(32) };
  return changeSetting.decide({ head, settings }, input, { now, freshIds: [], trustedFromMs: 0 });
}

const refused = { kind: 'not-allowed', code: 'too_many_settings' };

t.test('a package has at most 256 settings; one that is there may still change', async (t) => {
  const full = Array.from({ length: limits.settingsPerPackageMax }, (_, index) => setTo(`N${index}`, ''));
  t.match(decide(full, 'more', ''), { outcome: refused, ledger: undefined });
  t.match(decide(full.slice(1), 'more', ''), { outcome: { kind: 'changed' } });
  t.match(decide(full, 'N3', 'x'), { outcome: { kind: 'changed' } });
  t.match(decide(full, 'N3', null), { outcome: { kind: 'changed' } });
});

t.test('the values of a package take at most 1 MiB, less the one whose place a new one takes', async (t) => {
  const half = '密'.repeat(Math.floor(limits.settingsBytesMax / 6));
  const left = limits.settingsBytesMax - Buffer.byteLength(half);
  t.match(decide([setTo('A', half)], 'B', 'x'.repeat(left)), { outcome: { kind: 'changed' } });
  t.match(decide([setTo('A', half)], 'B', 'x'.repeat(left + 1)), { outcome: refused, ledger: undefined });
  t.match(decide([setTo('A', half), setTo('B', 'x')], 'B', 'y'.repeat(left)), { outcome: { kind: 'changed' } });
});

t.test('what is written has the new salt and the time, and no outcome has the value', async (t) => {
  const { outcome, ledger } = decide([setTo('API_TOKEN', 'old')], 'API_TOKEN', 'hunter2');
  const place = { projectId: 'local', packageName: 'sample' };
  const setting = { name: 'API_TOKEN', value: 'hunter2', salt: 'b'.repeat(32), updatedAtMs: 7 };
  t.same(ledger, [{ write: 'setting', ...place, setting }]);
  t.same(outcome, { kind: 'changed', isAsked: true, nearestName: null });
  t.same(decide([setTo('API_TOKEN', 'old')], 'API_TOKEN', null).ledger, [
    { write: 'clear-setting', ...place, name: 'API_TOKEN' },
  ]);
  t.same(decide([setTo('API_TOKEN', 'old')], 'API_TOKEN', 'old').ledger, undefined, 'nothing is written for nothing');
});
