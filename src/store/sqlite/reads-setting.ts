// Reads of the settings of packages: all of one package, and those that one task asks for.
import type { DatabaseSync } from 'node:sqlite';
import { listAskedSettings, type PackageSetting } from '../../core/package-setting.ts';
import type { GenerationTarget } from '../../core/publication.ts';
import type { MaterializedTask } from '../../core/revision.ts';
import type { Reads } from '../../protocol/reads.ts';
import { toHex } from './codec.ts';
import { statement } from './statement.ts';

const selectAllSql = `SELECT name, value, salt, updatedAtMs FROM PackageSettings
  WHERE projectId = :projectId AND packageName = :packageName ORDER BY name`;
const selectOneSql = `SELECT name, value, salt, updatedAtMs FROM PackageSettings
  WHERE projectId = :projectId AND packageName = :packageName AND name = :name`;

type Place = Reads['settings']['args'];
type SettingRow = Omit<PackageSetting, 'salt'> & { readonly salt: Uint8Array };

export type SettingReader = {
  readonly settings: (place: Place) => readonly PackageSetting[];
  /** One look-up a name that the task asks for; most ask for none. */
  readonly ofTask: (target: GenerationTarget, task: MaterializedTask) => readonly PackageSetting[];
};

/** The reads of settings on one connection. */
export function createSettingReads(db: DatabaseSync): SettingReader {
  const selectAll = statement<Place, SettingRow>(db, selectAllSql);
  const selectOne = statement<Place & { name: string }, SettingRow>(db, selectOneSql);
  return {
    settings: ({ projectId, packageName }) => selectAll.all({ projectId, packageName }).map(decodeSetting),
    ofTask: ({ projectId, packageName }, task) =>
      listAskedSettings([task]).flatMap((name) => {
        const row = selectOne.get({ projectId, packageName, name });
        return row === null ? [] : [decodeSetting(row)];
      }),
  };
}

function decodeSetting({ name, value, salt, updatedAtMs }: SettingRow): PackageSetting {
  return { name, value, salt: toHex(salt), updatedAtMs };
}
