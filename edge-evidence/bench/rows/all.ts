// Every row of the budget table but PostgreSQL's, in the order in which they are measured.
import type { Row } from '../bench-run.ts';
import { blockRow } from './block.ts';
import { crowdRow, embeddedRow, stepsRow } from './chains.ts';
import { churnRow } from './churn.ts';
import { commitsRow, syncsRow } from './commits.ts';
import { daemonRow, sizeRow } from './daemon.ts';
import { idleRow } from './idle.ts';
import { killedRow } from './killed.ts';
import { scaleRow } from './scale.ts';
import { smallRow } from './small.ts';
import { spawnedRow } from './spawned.ts';

export const rows: readonly Row[] = [
  sizeRow,
  daemonRow,
  churnRow,
  idleRow,
  commitsRow,
  syncsRow,
  stepsRow,
  crowdRow,
  embeddedRow,
  spawnedRow,
  scaleRow,
  blockRow,
  killedRow,
  smallRow,
];
