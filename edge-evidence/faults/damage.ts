// A data directory whose files came to harm: cut, garbled, zeroed, of another version, taken away. Whatever is answered
// must be true of what had been acknowledged, or be refused; nothing may crash or hang; and when the files are put
// back, everything is there.
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { modes, type Site } from '../operation.ts';
import type { Random } from '../random.ts';
import type { Expected } from './answer.ts';
import { packageName } from './ground.ts';
import { type Journey, listRuns } from './journey.ts';
import { type FaultScenario, nothingInTheWay, type Stage, tryPoint } from './scenario.ts';

const damaged: Expected = { codes: ['damaged', 'unavailable', 'invalid', 'not-found'], mayHold: true };

/** Harms a data directory; null where it has not what is to be harmed. */
type Harm = { readonly what: string; readonly harm: (site: Site) => void };

const pageBytes = 1024;

const fileOf = ({ data }: Site) => join(data, 'qinglong.db');

function alterFile(site: Site, alter: (bytes: Buffer) => Buffer): void {
  writeFileSync(fileOf(site), alter(readFileSync(fileOf(site))));
}

function alterRows(site: Site, sql: string): void {
  const db = new DatabaseSync(fileOf(site), { enableForeignKeyConstraints: false });
  db.exec(sql);
  db.close();
}

function cutTo(lengthOf: (size: number) => number, what: string): Harm {
  return {
    what: `cut to ${what}`,
    harm: (site) => alterFile(site, (bytes) => bytes.subarray(0, lengthOf(bytes.length))),
  };
}

function overwrite(what: string, from: number, filling: Buffer): Harm {
  return {
    what,
    harm: (site) =>
      alterFile(site, (bytes) => {
        filling.copy(bytes, Math.min(from, bytes.length - 1));
        return bytes;
      }),
  };
}

const fixedHarms: readonly Harm[] = [
  cutTo(() => 0, '0 bytes'),
  cutTo((size) => Math.floor(size / 2 / pageBytes) * pageBytes, 'half of its pages'),
  cutTo(() => 1, '1 byte'),
  cutTo(() => 100, 'its header'),
  cutTo(() => pageBytes, 'one page'),
  cutTo((size) => Math.floor(size / 2) + 77, 'the middle of a page'),
  cutTo((size) => size - pageBytes, 'all but one page'),
  cutTo((size) => size - 1, 'all but one byte'),
  overwrite('a header that is none', 0, Buffer.alloc(100, 'no database ')),
  overwrite('another page size in the header', 16, Buffer.from([0x10, 0])),
  overwrite('a first page of zeros', 0, Buffer.alloc(pageBytes)),
  { what: 'a newer capability', harm: (site) => alterRows(site, 'UPDATE Capabilities SET version = version + 1') },
  {
    what: 'a migration of a newer version',
    harm: (site) =>
      alterRows(site, "INSERT INTO Migrations SELECT '9999-later', sha256, appliedAtMs FROM Migrations LIMIT 1"),
  },
  { what: 'a table of somebody else', harm: (site) => alterRows(site, 'CREATE TABLE Foreign_ (x)') },
  { what: 'no database', harm: (site) => rmSync(fileOf(site)) },
  { what: 'a directory in its place', harm: (site) => [rmSync(fileOf(site)), mkdirSync(fileOf(site))] },
  {
    what: 'a link in its place',
    harm: (site) => [
      renameSync(fileOf(site), join(site.root, 'elsewhere')),
      symlinkSync(join(site.root, 'elsewhere'), fileOf(site)),
    ],
  },
  { what: 'no marker', harm: ({ data }) => rmSync(join(data, 'qinglong.db.marker')) },
  { what: 'no config.json', harm: ({ data }) => rmSync(join(data, 'config.json')) },
  { what: 'half a config.json', harm: ({ data }) => writeFileSync(join(data, 'config.json'), '{"profile": "ed') },
  {
    what: 'a lock file that is none',
    harm: ({ data }) => writeFileSync(join(data, 'lock.db'), Buffer.alloc(4096, 'x')),
  },
  { what: 'a holder that is none', harm: ({ data }) => writeFileSync(join(data, 'holder.json'), '{"pid": "x"') },
];

function drawHarms(
  random: Random,
  { zeros, flips, noise }: { zeros: number; flips: number; noise: number },
): readonly Harm[] {
  const zeroed = Array.from({ length: zeros }, () => random.fraction());
  const flipped = Array.from({ length: flips }, () => ({ at: random.fraction(), bit: random.between(0, 7) }));
  const noisy = Array.from({ length: noise }, () => ({ at: random.fraction(), byte: random.between(0, 255) }));
  return [
    ...zeroed.map((at) => ({
      what: `a page of zeros at ${at.toFixed(4)}`,
      harm: (site: Site) =>
        alterFile(site, (bytes) => {
          const page = Math.floor((at * bytes.length) / pageBytes);
          return bytes.fill(0, page * pageBytes, (page + 1) * pageBytes);
        }),
    })),
    ...flipped.map(({ at, bit }) => ({
      what: `bit ${bit} at ${at.toFixed(6)} flipped`,
      harm: (site: Site) =>
        alterFile(site, (bytes) => {
          const index = Math.floor(at * bytes.length);
          bytes[index] = (bytes[index] ?? 0) ^ (1 << bit);
          return bytes;
        }),
    })),
    ...noisy.map(({ at, byte }) => ({
      what: `4 KiB of noise at ${at.toFixed(4)}`,
      harm: (site: Site) =>
        alterFile(site, (bytes) => {
          const from = Math.floor((at * bytes.length) / 512) * 512;
          return bytes.fill(byte, from, Math.min(bytes.length, from + 4096));
        }),
    })),
  ];
}

const questions: readonly (readonly string[])[] = [
  ['status'],
  ['serve', '--until-idle'],
  ['package', 'list'],
  ['workflow', 'start', `${packageName}/main`, '--key', 'fourth'],
  ['advance'],
];

export const damageScenarios: readonly FaultScenario[] = [
  {
    name: 'damaged database',
    isQuick: true,
    modes,
    findObstacle: nothingInTheWay,
    async run(stage) {
      const counts = stage.isQuick ? { zeros: 0, flips: 1, noise: 0 } : { zeros: 2, flips: 4, noise: 1 };
      // Both delete modes have the same files.
      const isSame = stage.ground.mode === 'delete-full';
      const fixed = isSame ? [] : stage.isQuick ? fixedHarms.slice(0, 2) : fixedHarms;
      for (const [index, harm] of [...fixed, ...drawHarms(stage.random, counts)].entries()) {
        await tryHarm(stage, harm, index);
      }
    },
  },
];

/** What it lists, what it answers to one of several questions, and in turn what `verify` says or what comes of it. */
function tryHarm(stage: Stage, { what, harm }: Harm, index: number): Promise<void> {
  return tryPoint(stage, what, { beginning: 'queued' }, async (journey, site) => {
    const good = join(site.root, 'good');
    cpSync(site.data, good, { recursive: true });
    harm(site);
    const troubles = [
      ...(await findLies(site, stage.ground.queued)),
      ...(await journey.ask(questions[index % questions.length]!, damaged)),
    ];
    return [
      ...troubles,
      ...(index % 2 === 0
        ? await journey.ask(['verify'], { ...damaged, isReport: true })
        : await findTroubleBehind(journey, site, good)),
    ];
  });
}

async function findTroubleBehind(journey: Journey, site: Site, good: string): Promise<readonly string[]> {
  rmSync(site.data, { recursive: true });
  renameSync(good, site.data);
  // Commands that ran on the damaged copy ran: what is put back is from before that.
  rmSync(join(site.root, 'trace'), { force: true });
  return (await journey.findTrouble()).map((trouble) => `with the files put back: ${trouble}`);
}

/** A listing that is given is true: each run is there, as it was, unless it is said that it is damaged. */
async function findLies(site: Site, queued: ReadonlyMap<string, string>): Promise<readonly string[]> {
  const runs = existsSync(fileOf(site)) ? await listRuns(site) : null;
  if (runs === null) {
    return [];
  }
  const untrue = [...queued].filter(([key, runId]) => {
    const run = runs.find(({ id }) => id === runId);
    const isTold = run !== undefined && ('damaged' in run || run.setAside !== null || run.status === null);
    return !isTold && (run?.status !== 'running' || run.idempotencyKey !== key);
  });
  return untrue.map(([key, runId]) => {
    const run = JSON.stringify(runs.find(({ id }) => id === runId) ?? null);
    return `run ${runId} of key ${key} is running, and the list says without a word of damage ${run}`;
  });
}
