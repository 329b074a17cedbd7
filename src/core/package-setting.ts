// Settings of a package: values that a device gives to the environment of its commands, without editing the package.
// Owns which ones a task asks for, how its environment is made of them, and the digest that stands for a value where
// the value itself must not be: a value may be a password, and nothing here ever puts one into a text.
import { digest, digestLabels } from './digest.ts';
import type { MaterializedTask } from './revision.ts';

/** What a device keeps for one setting. `salt` is 32 hex digits that nobody can guess, drawn anew with each value. */
export type PackageSetting = {
  readonly name: string;
  readonly value: string;
  readonly salt: string;
  readonly updatedAtMs: number;
};

/** One place where a task asks for a setting. */
export type SettingUse = {
  readonly name: string;
  readonly taskId: string;
  readonly variable: string;
  /** What the variable has where the device sets nothing; null where the attempt then fails. */
  readonly default: string | null;
};

/** The variables that a task sets, with this device's values in them; or the settings that it cannot do without. */
export type TaskEnvironment =
  | { readonly kind: 'complete'; readonly variables: Readonly<Record<string, string>> }
  | { readonly kind: 'lacking'; readonly settingNames: readonly string[] };

/** Every use of a setting in these tasks, by name, then task, then variable. */
export function listSettingUses(tasks: readonly Pick<MaterializedTask, 'id' | 'env'>[]): readonly SettingUse[] {
  const uses = tasks.flatMap(({ id, env }) =>
    Object.entries(env).flatMap(([variable, entry]) =>
      typeof entry === 'string' ? [] : [{ name: entry.setting, taskId: id, variable, default: entry.default }],
    ),
  );
  return uses.sort((left, right) => compare(keyOf(left), keyOf(right)));
}

/** The settings that these tasks ask for, each once, in the order of their names. */
export function listAskedSettings(tasks: readonly Pick<MaterializedTask, 'id' | 'env'>[]): readonly string[] {
  return [...new Set(listSettingUses(tasks).map(({ name }) => name))];
}

/** A value that is set wins over a default, also an empty one. */
export function fillEnvironment(env: MaterializedTask['env'], settings: readonly PackageSetting[]): TaskEnvironment {
  const values = new Map(settings.map(({ name, value }) => [name, value]));
  const variables: Record<string, string> = {};
  const lacking = new Set<string>();
  for (const [variable, entry] of Object.entries(env)) {
    const value = typeof entry === 'string' ? entry : (values.get(entry.setting) ?? entry.default);
    if (value === null) {
      lacking.add((entry as Exclude<typeof entry, string>).setting);
    } else {
      variables[variable] = value;
    }
  }
  return lacking.size === 0 ? { kind: 'complete', variables } : { kind: 'lacking', settingNames: [...lacking].sort() };
}

/**
 * The environment as a digest may cover it: a value of this device is there as a digest of its own, salted, so that an
 * event that holds the outer one tells nothing about a value that has few possible ones.
 */
export function environmentToDigest(env: MaterializedTask['env'], settings: readonly PackageSetting[]): object {
  const digests = new Map(settings.map((setting) => [setting.name, settingDigest(setting)]));
  return Object.fromEntries(
    Object.entries(env).map(([variable, entry]) => {
      const valueDigest = typeof entry === 'string' ? null : (digests.get(entry.setting) ?? null);
      return [variable, typeof entry === 'string' || valueDigest === null ? entry : { ...entry, valueDigest }];
    }),
  );
}

function settingDigest({ name, salt, value }: PackageSetting): string {
  return digest(digestLabels.packageSetting, { name, salt, value });
}

function keyOf({ name, taskId, variable }: SettingUse): string {
  return `${name}\0${taskId}\0${variable}`;
}

function compare(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
