// Settings of packages, as the surfaces see them: changing one, and what a package asks for beside what is set.
import { EdgeError, type Mistake } from '../core/errors.ts';
import { environmentEntryRule, settingNameRule } from '../core/manifest-rules.ts';
import { listSettingUses, type PackageSetting, type SettingUse } from '../core/package-setting.ts';
import type { Salts } from '../core/ports.ts';
import { changeSetting, type SettingOutcome } from '../protocol/package-setting.ts';
import { operation } from '../protocol/protocol.ts';
import type { PackageHead } from '../protocol/reads.ts';
import type { Store } from '../store/store.ts';
import { checkArguments } from './arguments.ts';
import { localProjectId } from './settings.ts';

export type SettingRequest = {
  readonly packageName: string;
  readonly name: string;
  /** Null unsets it. */
  readonly value: string | null;
};

/** Throws `invalid` for a name or value that no environment can hold, without repeating the value. */
export async function changePackageSetting(
  { store, salts }: { readonly store: Pick<Store, 'submit'>; readonly salts: Salts },
  { packageName, name, value }: SettingRequest,
): Promise<SettingOutcome> {
  checkArguments({ packageName });
  checkSetting(name, value);
  const input = { projectId: localProjectId, packageName, name, value, salt: salts.fresh() };
  return store.submit(operation(changeSetting, input));
}

function checkSetting(name: unknown, value: unknown): void {
  const nameBroken = typeof name === 'string' ? settingNameRule(name) : 'must be the name of a setting';
  const valueBroken =
    typeof value === 'string'
      ? environmentEntryRule({ name: `${name}`, value })
      : value === null
        ? null
        : 'must be text';
  const broken = Object.entries({ name: nameBroken, value: valueBroken }).flatMap(([path, rule]): readonly Mistake[] =>
    rule === null ? [] : [{ file: null, path, line: null, rule }],
  );
  const [first] = broken;
  if (first !== undefined) {
    const hint = 'correct it and try again';
    throw new EdgeError('invalid', `${first.path} ${first.rule}`, { hint, mistakes: broken });
  }
}

export type SettingState = 'set' | 'default' | 'missing' | 'unused';

export type SettingInspection = {
  readonly name: string;
  /** `missing`: attempts of a task that asks for it fail. `unused`: it is set, and nothing asks for it. */
  readonly state: SettingState;
  readonly uses: readonly Omit<SettingUse, 'name'>[];
  readonly updatedAtMs: number | null;
  readonly value: string | null;
};

/** What the present generation asks for and what is set, by name. It holds the values: whoever shows it, asks first. */
export function inspectSettings(head: PackageHead, settings: readonly PackageSetting[]): readonly SettingInspection[] {
  const uses = listSettingUses(head.revision.tasks);
  const set = new Map(settings.map((setting) => [setting.name, setting]));
  const names = [...new Set([...uses, ...settings].map(({ name }) => name))].sort();
  return names.map((name) => {
    const own = uses.filter((use) => use.name === name);
    const setting = set.get(name) ?? null;
    return {
      name,
      state: stateOf(own, setting),
      uses: own.map(({ name: _, ...use }) => use),
      updatedAtMs: setting?.updatedAtMs ?? null,
      value: setting?.value ?? null,
    };
  });
}

function stateOf(uses: readonly SettingUse[], setting: PackageSetting | null): SettingState {
  if (setting !== null) {
    return uses.length === 0 ? 'unused' : 'set';
  }
  return uses.some((use) => use.default === null) ? 'missing' : 'default';
}
