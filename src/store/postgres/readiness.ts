// Whether a server and its database are what this program was written for. Names every difference and repairs none.
import { EdgeError } from '../../core/errors.ts';
import type { StoreInfo } from '../store.ts';
import { compareCatalogs, readCatalog } from './catalog.ts';
import { catalogManifest } from './catalog-manifest.ts';
import type { Connection } from './connection.ts';
import { toEdgeError } from './failure.ts';
import { ask, findPending, migrateHint, readHistory } from './migrate.ts';

/** What the last migration sets. */
export const capability = { name: 'control-core', version: 46 } as const;

const serverVersionMin = 150_000;

const serverSql = `SELECT json_build_object(
    'version', current_setting('server_version'),
    'versionNumber', current_setting('server_version_num')::integer,
    'isStandby', pg_is_in_recovery(),
    'fsync', current_setting('fsync'),
    'durability', current_setting('synchronous_commit'),
    'encoding', current_setting('server_encoding'),
    'isRuntime', CASE WHEN to_regrole('ql3_runtime') IS NULL THEN false
      ELSE pg_has_role(current_user, to_regrole('ql3_runtime'), 'USAGE') END
  ) AS server`;
const capabilitySql = 'SELECT name, version FROM ql3.capabilities';

type ServerFacts = {
  readonly version: string;
  readonly versionNumber: number;
  readonly isStandby: boolean;
  readonly fsync: string;
  readonly durability: string;
  readonly encoding: string;
  readonly isRuntime: boolean;
};

/** Throws `unavailable` for a server or version that this program cannot work with, `damaged` naming what differs. */
export async function checkReadiness(connection: Connection): Promise<StoreInfo> {
  try {
    const [row] = await ask(connection, serverSql);
    const server = row?.['server'] as ServerFacts;
    refuseServer(server);
    const pending = findPending(await readHistory(connection)).map(({ id }) => id);
    if (pending.length > 0) {
      throw new EdgeError('unavailable', `the database is older than this program: it lacks ${pending.join(', ')}`, {
        hint: migrateHint,
      });
    }
    refuseLogin(server);
    const found = await ask(connection, capabilitySql);
    const capabilities = found.map(({ name, version }) => `${name} ${version}`).join(', ');
    const differences = [
      ...(capabilities === `${capability.name} ${capability.version}` ? [] : [`the capability is ${capabilities}`]),
      ...compareCatalogs(catalogManifest, await readCatalog(connection)),
    ];
    if (differences.length > 0) {
      throw new EdgeError('damaged', `the schema ql3 is not as this program made it: ${differences.join('; ')}`, {
        hint: 'restore a backup',
      });
    }
    return { profile: 'cluster', durability: server.durability, engine: `PostgreSQL ${server.version}`, capability };
  } catch (error) {
    throw toEdgeError(error, 'check the database');
  }
}

function refuseServer({ version, versionNumber, isStandby, fsync, durability, encoding }: ServerFacts): void {
  const reasons: readonly [boolean, string, string][] = [
    [versionNumber < serverVersionMin, `PostgreSQL ${version} is too old`, 'use PostgreSQL 15 or later'],
    [isStandby, 'this server is a standby', 'connect to the primary'],
    // A state that is told is durable.
    [fsync === 'off', 'this server runs with fsync off', 'turn it on: what was told must outlive a power cut'],
    [durability === 'off', 'commits do not wait for the disk', 'set synchronous_commit to on or more'],
    [encoding !== 'UTF8', `the database has the encoding ${encoding}`, 'make it with the encoding UTF8'],
  ];
  for (const [isRefused, message, hint] of reasons) {
    if (isRefused) {
      throw new EdgeError('unavailable', message, { hint });
    }
  }
}

function refuseLogin({ isRuntime }: ServerFacts): void {
  if (!isRuntime) {
    throw new EdgeError('unavailable', 'this login is no member of ql3_runtime', {
      hint: 'GRANT ql3_runtime TO it; and ql3_manager if it manages packages',
    });
  }
}
