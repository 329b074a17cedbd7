// The files that SQLite keeps beside a database, taken away, cut, or put there by somebody else.
import { cpSync, existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { databaseOf, type Site } from '../operation.ts';
import { type Expected, works } from './answer.ts';
import type { Journey } from './journey.ts';
import { launchNode } from './launch.ts';
import { type FaultScenario, nothingInTheWay, type Stage, tryPoint } from './scenario.ts';

const mayBeDamaged: Expected = { codes: ['damaged', 'unavailable'], mayHold: true };

export const sidecarScenarios: readonly FaultScenario[] = [
  {
    name: 'write-ahead log harmed',
    isQuick: false,
    modes: ['wal-full'],
    findObstacle: nothingInTheWay,
    async run(stage) {
      const logOf = (site: Site) => `${databaseOf(site)}-wal`;
      const half = (site: Site) => Math.floor(statSync(logOf(site)).size / 2);
      await tryLog(stage, 'whole, without its -shm', () => {}, 'kept');
      await tryLog(stage, 'missing', (site) => rmSync(logOf(site)), 'may be lost');
      await tryLog(stage, 'cut in the middle', (site) => truncateSync(logOf(site), half(site)), 'may be lost');
      await tryLog(stage, 'garbled', (site) => writeFileSync(logOf(site), Buffer.alloc(9000, 'x')), 'may be lost');
      await tryLog(stage, 'with more behind it', appendNoise, 'kept');
    },
  },
  {
    name: 'foreign rollback journal',
    isQuick: false,
    modes: ['delete-extra', 'delete-full'],
    findObstacle: nothingInTheWay,
    async run(stage) {
      await tryJournal(stage, 'of 0 bytes', () => Buffer.alloc(0), works);
      await tryJournal(stage, 'that is none', () => Buffer.alloc(5000, 'no journal '), works);
      await tryJournal(stage, 'of an unfinished transaction of another database', makeForeignJournal, mayBeDamaged);
    },
  },
];

function appendNoise(site: Site): void {
  const file = `${databaseOf(site)}-wal`;
  writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.alloc(3000, 'y')]));
}

/** A reader that stays keeps the last commit in the log; then it is gone, as after a power cut. */
function tryLog(
  stage: Stage,
  what: string,
  harm: (site: Site) => void,
  lastRun: 'kept' | 'may be lost',
): Promise<void> {
  return tryPoint(stage, what, { beginning: 'queued' }, async (journey, site) => {
    const program = `const db = new (require('node:sqlite').DatabaseSync)(process.argv[1]);
      db.prepare('SELECT count(*) FROM Migrations').get(); console.log('reads'); setInterval(() => {}, 1e6);`;
    const reader = launchNode(site.root, ['-e', program, databaseOf(site)]);
    await reader.spoke;
    // Where the log is lost so is what was acknowledged since the last checkpoint: that cannot be helped, only told.
    const before = lastRun === 'kept' ? await journey.start('third', works) : await startUnremembered(journey);
    reader.process.kill('SIGKILL');
    await reader.answered;
    const hasLog = existsSync(`${databaseOf(site)}-wal`) ? [] : ['the trial itself failed: there is no log to harm'];
    rmSync(`${databaseOf(site)}-shm`, { force: true });
    harm(site);
    const after = [
      ...(await journey.ask(['status'], mayBeDamaged)),
      ...(await journey.ask(['verify'], { ...mayBeDamaged, isReport: true })),
      ...(await journey.findTrouble()),
    ];
    return [...before, ...hasLog, ...after];
  });
}

function startUnremembered(journey: Journey): Promise<readonly string[]> {
  return journey.ask(['workflow', 'start', 'faulty/main', '--key', 'third'], works);
}

function tryJournal(stage: Stage, what: string, make: (site: Site) => Buffer, expected: Expected): Promise<void> {
  return tryPoint(stage, what, { beginning: 'queued' }, async (journey, site) => {
    const good = join(site.root, 'good');
    cpSync(site.data, good, { recursive: true });
    writeFileSync(`${databaseOf(site)}-journal`, make(site), { mode: 0o600 });
    const troubles = [
      ...(await journey.ask(['runs', 'list'], expected)),
      ...(await journey.start('third', expected)),
      ...(await journey.ask(['verify'], { ...expected, isReport: true })),
    ];
    if (expected === works) {
      return [...troubles, ...(await journey.findTrouble())];
    }
    // A journal that is whole is believed, as it must be after a power cut: what it undoes is gone, but never silently.
    return troubles;
  });
}

/** What an unfinished transaction leaves beside a database whose pages are other ones. */
function makeForeignJournal(site: Site): Buffer {
  const file = join(site.root, 'foreign.db');
  cpSync(databaseOf(site), file);
  const db = new DatabaseSync(file);
  try {
    // So small a cache is written back in the middle of the transaction, and the journal is valid from then on.
    db.exec('PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; CREATE TABLE Other (x); BEGIN IMMEDIATE');
    db.exec(
      'WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) INSERT INTO Other SELECT hex(i) FROM n',
    );
    db.exec('DROP TABLE Other');
    return readFileSync(`${file}-journal`);
  } finally {
    db.close();
  }
}
