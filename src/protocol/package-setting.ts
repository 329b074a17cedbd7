// Settings of a package on this device: set and unset. They belong to the name of a package, not to an installation:
// an upgrade keeps them, and so does uninstalling, until they are unset. No outcome holds a value.
import { utf8Bytes } from '../core/canonical-json.ts';
import { limits } from '../core/limits.ts';
import { nearestName } from '../core/nearest.ts';
import { listAskedSettings, type PackageSetting } from '../core/package-setting.ts';
import { type Decision, protocol } from './protocol.ts';
import { read } from './reads.ts';

export type ChangeSettingInput = {
  readonly projectId: string;
  readonly packageName: string;
  readonly name: string;
  /** Null unsets it. */
  readonly value: string | null;
  /** 32 hex digits that nobody can guess, fresh with each call. */
  readonly salt: string;
};

export type SettingOutcome =
  | {
      /** `unchanged`: it has this value, or none, already. */
      readonly kind: 'changed' | 'unchanged';
      /** Whether the package's present generation asks for it; if not, the nearest name that it does ask for. */
      readonly isAsked: boolean;
      readonly nearestName: string | null;
    }
  | { readonly kind: 'not-found'; readonly reason: string }
  | { readonly kind: 'not-allowed'; readonly code: string; readonly reason: string };

/** Takes effect with the next attempt that is admitted. Lost answer: set it again, the same value is `unchanged`. */
export const changeSetting = protocol({
  name: 'change-setting',
  load: ({ projectId, packageName }: ChangeSettingInput) => ({
    head: read('package', { projectId, packageName }),
    settings: read('settings', { projectId, packageName }),
  }),
  decide: ({ head, settings }, input, { now }): Decision<SettingOutcome> => {
    const { projectId, packageName, name, value, salt } = input;
    if (head === null) {
      return { outcome: { kind: 'not-found', reason: `package ${packageName} is not installed` } };
    }
    const asked = listAskedSettings(head.revision.tasks);
    const isAsked = asked.includes(name);
    const about = { isAsked, nearestName: isAsked ? null : nearestName(name, asked) };
    const present = settings.find((setting) => setting.name === name)?.value ?? null;
    if (present === value) {
      return { outcome: { kind: 'unchanged', ...about } };
    }
    const outcome = { kind: 'changed', ...about } as const;
    if (value === null) {
      return { outcome, ledger: [{ write: 'clear-setting', projectId, packageName, name }] };
    }
    const others = settings.filter((setting) => setting.name !== name);
    const reason = findExcess(others, value);
    if (reason !== null) {
      return { outcome: { kind: 'not-allowed', code: 'too_many_settings', reason } };
    }
    const setting = { name, value, salt, updatedAtMs: now.wallMs };
    return { outcome, ledger: [{ write: 'setting', projectId, packageName, setting }] };
  },
});

function findExcess(others: readonly PackageSetting[], value: string): string | null {
  const countMax = limits.settingsPerPackageMax;
  if (others.length >= countMax) {
    return `a package has at most ${countMax} settings; unset one that is not needed`;
  }
  const bytes = others.reduce((sum, setting) => sum + utf8Bytes(setting.value), utf8Bytes(value));
  const bytesMax = limits.settingsBytesMax;
  return bytes > bytesMax ? `all settings of a package may take ${bytesMax} bytes, but would take ${bytes}` : null;
}
