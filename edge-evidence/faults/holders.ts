// Other processes in the way: somebody who has the locks, a holder that does not answer, a launcher that was killed, a
// machine that stood still. None of it needs tools or root.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { databaseOf, type Site } from '../operation.ts';
import { findProcessesOf, killProcess, listProcesses, readProcessEntry } from '../processes.ts';
import { type Expected, works } from './answer.ts';
import { findDeath, startDaemon } from './daemon.ts';
import { readTrace } from './journey.ts';
import { becomesTrue, launchNode, pause } from './launch.ts';
import { type FaultScenario, journalModes, nothingInTheWay, type Stage, tryPoint } from './scenario.ts';

const isBusy: Expected = { codes: ['busy'], mayHold: false };
const everywhere = { modes: journalModes, findObstacle: nothingInTheWay };

export const holderScenarios: readonly FaultScenario[] = [
  {
    ...everywhere,
    name: 'lock held by another process',
    isQuick: false,
    async run(stage) {
      await tryLocked(stage, 'lock.db, BEGIN EXCLUSIVE', (site) => join(site.data, 'lock.db'), 'BEGIN EXCLUSIVE');
      await tryLocked(stage, 'the database, BEGIN IMMEDIATE', databaseOf, 'BEGIN IMMEDIATE');
    },
  },
  { ...everywhere, name: 'holder stopped by SIGSTOP', isQuick: false, run: tryStoppedHolder },
  { ...everywhere, name: 'launcher killed', isQuick: true, run: (stage) => tryLaunchers(stage) },
  { ...everywhere, name: 'command stopped by SIGSTOP', isQuick: false, run: tryStoppedCommand },
  { ...everywhere, name: 'files taken from under a daemon', isQuick: false, run: tryTaken },
];

/** Somebody who is not the product has a lock, and then goes. */
function tryLocked(stage: Stage, what: string, fileOf: (site: Site) => string, sql: string): Promise<void> {
  return tryPoint(stage, what, { beginning: 'queued' }, async (journey, site) => {
    const program = `const db = new (require('node:sqlite').DatabaseSync)(process.argv[1]);
      db.exec(process.argv[2]); console.log('holds'); setInterval(() => {}, 1e6);`;
    const other = launchNode(site.root, ['-e', program, fileOf(site), sql]);
    await other.spoke;
    // Side by side: each of them waits for 5 s.
    const answers = await Promise.all([
      journey.start('third', isBusy),
      journey.ask(['serve', '--until-idle'], isBusy),
      journey.ask(['runs', 'list'], works),
      journey.ask(['status'], works),
    ]);
    other.process.kill('SIGKILL');
    await other.answered;
    return [...answers.flat(), ...(await journey.start('third', works)), ...(await journey.findTrouble())];
  });
}

function tryStoppedHolder(stage: Stage): Promise<void> {
  return tryPoint(stage, 'serve', { beginning: 'queued' }, async (journey, site) => {
    const daemon = await startDaemon(site);
    daemon.process.kill('SIGSTOP');
    const answers = await Promise.all([
      journey.start('third', isBusy),
      journey.ask(['serve', '--until-idle'], isBusy),
      journey.ask(['runs', 'list'], works),
    ]);
    daemon.process.kill('SIGCONT');
    return [
      ...answers.flat(),
      ...(await journey.start('fourth', works)),
      ...(await journey.endsBy(daemon)),
      ...(await daemon.stop()),
      ...(await journey.findTrouble()),
    ];
  });
}

/** The leader of the session that a command of this site runs in: its launcher. */
function findLaunchers(site: Site): readonly number[] {
  const leaders = findProcessesOf(site.root).map(({ sessionId }) => sessionId);
  return [...new Set(leaders)].filter((pid) => pid !== readProcessEntry(process.pid)?.sessionId && pid > 1);
}

/** Killed alone, with its command, or with the daemon; then the next run must go well. */
async function tryLaunchers(stage: Stage): Promise<void> {
  for (const victims of stage.isQuick ? ['alone'] : ['alone', 'with its command', 'with the daemon']) {
    await tryPoint(stage, victims, { beginning: 'installed' }, async (journey, site) => {
      const daemon = await startDaemon(site);
      const before = [...(await findDeath(daemon)), ...(await journey.start('held', works, { workflowId: 'held' }))];
      const isHeld = await becomesTrue(() => readTrace(site).length === 1 && findLaunchers(site).length > 0);
      const sessions = findLaunchers(site);
      const isVictim = ({ pid, sessionId }: { pid: number; sessionId: number }) =>
        sessions.includes(victims === 'alone' ? pid : sessionId);
      if (victims === 'with the daemon') {
        daemon.process.kill('SIGKILL');
        await daemon.answered;
      }
      listProcesses().filter(isVictim).forEach(killProcess);
      writeFileSync(join(site.root, 'gate'), '');
      const next = victims === 'with the daemon' ? await startDaemon(site) : daemon;
      const during = await journey.start('next', works);
      const hasNext = await becomesTrue(() => readTrace(site).length >= 3);
      return [
        ...before,
        ...(isHeld ? [] : ['the trial itself failed: no command is running']),
        ...during,
        ...(hasNext ? [] : ['the next run does not go on']),
        ...(await next.stop()),
        // Nobody can know how the command ended: the record may say `lost`, and the run then failed.
        ...(await journey.findTrouble({ mayEnd: ['failed'] })),
      ];
    });
  }
}

function tryStoppedCommand(stage: Stage): Promise<void> {
  return tryPoint(stage, 'launcher and command', { beginning: 'installed' }, async (journey, site) => {
    const daemon = await startDaemon(site);
    const before = await journey.start('held', works, { workflowId: 'held' });
    await becomesTrue(() => readTrace(site).length === 1);
    const sessions = findLaunchers(site);
    const members = listProcesses().filter(({ sessionId }) => sessions.includes(sessionId));
    members.forEach(({ pid }) => void signal(pid, 'SIGSTOP'));
    daemon.process.kill('SIGSTOP');
    await pause(300);
    daemon.process.kill('SIGCONT');
    writeFileSync(join(site.root, 'gate'), '');
    const during = await journey.ask(['status'], works);
    members.forEach(({ pid }) => void signal(pid, 'SIGCONT'));
    return [
      ...before,
      ...during,
      ...(await journey.endsBy(daemon)),
      ...(await daemon.stop()),
      ...(await journey.findTrouble()),
    ];
  });
}

function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name);
  } catch {
    // Ended meanwhile.
  }
}

const endsClearly: Expected = {
  codes: ['unavailable', 'damaged', 'busy', 'unknown-outcome', 'not-found'],
  mayHold: true,
};

/** What belongs to a working daemon vanishes: it ends clearly or goes on, and what it answered holds. */
async function tryTaken(stage: Stage): Promise<void> {
  const takings: Readonly<Record<string, (site: Site) => string>> = {
    'lock.db': ({ data }) => join(data, 'lock.db'),
    'the socket': ({ run }) => join(run, 'sock'),
    'holder.json': ({ data }) => join(data, 'holder.json'),
    'the run directory': ({ run }) => run,
  };
  for (const [what, fileOf] of Object.entries(takings)) {
    await tryPoint(stage, what, { beginning: 'queued' }, async (journey, site) => {
      const daemon = await startDaemon(site);
      rmSync(fileOf(site), { recursive: true });
      const during = await journey.start('third', endsClearly);
      daemon.process.kill('SIGTERM');
      const { isLate, err } = await daemon.answered;
      return [
        ...during,
        ...(isLate ? [`the daemon did not end when it was told to: ${err}`] : []),
        ...(await journey.start('third', works)),
        ...(await journey.findTrouble(what === 'the run directory' ? { mayEnd: ['failed'] } : {})),
      ];
    });
  }
}
