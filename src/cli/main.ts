// Entry: the program `qinglong-edge`. Gives the command line its real ports and the SQLite adapter, which is loaded
// only when a command needs it.
import './engine-settings.ts';
import { realpathSync } from 'node:fs';
import { isEdgeError } from '../core/errors.ts';
import { describeError } from '../runtime/log.ts';
import type { Durability } from '../store/sqlite/profile.ts';
import { edgeLine } from './commands.ts';
import { startProgram } from './start-program.ts';
import type { Storage } from './storage.ts';

const storage: Storage = {
  openStore:
    ({ report, ...options }) =>
    async (ports) => {
      const { openSqliteStore } = await import('../sqlite.ts');
      return openSqliteStore({
        ...ports,
        ...options,
        // The options' table holds exactly these.
        durability: options.durability as Durability | null,
        report: {
          failed: (operation, error) => report.failed(`${operation?.name ?? 'a turn'} failed: ${describeError(error)}`),
          closedForGood: report.closedForGood,
        },
      });
    },
  async openReader(options) {
    const reader = (await import('../sqlite.ts')).openReader(options);
    return { ...reader, read: async (request) => reader.read(request) };
  },
  async readHolder(data) {
    const { findDataDirectory } = await import('../store/sqlite/data-directory.ts');
    const { readHolder } = await import('../store/sqlite/holder-lock.ts');
    try {
      return readHolder(findDataDirectory(data));
    } catch (error) {
      if (isEdgeError(error) && error.code === 'not-found') {
        return null;
      }
      throw error;
    }
  },
  async readConfig(data) {
    return (await import('../store/sqlite/data-directory.ts')).readConfigFile(data);
  },
  async isHeld(data) {
    const { findDataDirectory } = await import('../store/sqlite/data-directory.ts');
    const { isHeld } = await import('../store/sqlite/holder-lock.ts');
    return isHeld(findDataDirectory(data));
  },
  async isHeldByProcess(data, pid) {
    const { findDataDirectory } = await import('../store/sqlite/data-directory.ts');
    const { isHeldByProcess } = await import('../store/sqlite/holder-lock.ts');
    return isHeldByProcess(findDataDirectory(data), pid);
  },
  async tryDurability({ data, durability }) {
    const { tryDurability } = await import('../store/sqlite/probe.ts');
    return tryDurability({ data: realpathSync(data), durability: durability as Durability });
  },
};

startProgram({ line: edgeLine, storage, openShared: () => null });
