// Coming back to a directory whose runtime was killed while a command ran, which came to its own end meanwhile; with
// what is kept track of in memory still there, and after a reboot without it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, watch } from 'node:fs';
import {
  bundleOptions,
  commonArguments,
  EvidenceError,
  type Operation,
  readSiteFile,
  type Site,
} from '../operation.ts';
import { findProcessesOf } from '../processes.ts';
import { findEffectTrouble, findRunsTrouble, installCutPackage, queueRun } from './cut-package.ts';
import { defineOperation } from './define.ts';

/** Far beyond what is awaited here, which takes a second. */
const waitMsMax = 30_000;
const lookMs = 20;

/** Leaves a run whose first command has ended, of which the records say only that it began. */
async function leaveKilled(site: Site): Promise<void> {
  await installCutPackage(site);
  await queueRun(site, 'slow');
  const args = [site.bundle, ...commonArguments(site), 'serve'];
  const runtime = spawn(process.execPath, args, { ...bundleOptions(site), stdio: 'ignore' });
  const exited = once(runtime, 'exit');
  await until(site, () => readSiteFile(site, 'trace').includes('begin '));
  runtime.kill('SIGKILL');
  await exited;
  await until(site, () => readSiteFile(site, 'trace').includes('end ') && findProcessesOf(site.root).length === 0);
}

/** Resolves when it holds: looked at whenever the site's folder changes, and now and then for what changes none. */
function until(site: Site, holds: () => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const endMs = Date.now() + waitMsMax;
    const finish = (settle: () => void) => {
      clearInterval(timer);
      watcher.close();
      settle();
    };
    const look = () => {
      if (holds()) {
        finish(resolve);
      } else if (Date.now() > endMs) {
        finish(() => reject(new EvidenceError(`a command did not run within ${waitMsMax / 1000} s`)));
      }
    };
    const timer = setInterval(look, lookMs);
    const watcher = watch(site.root, look);
    look();
  });
}

const findTrouble = (site: Site) => [...findRunsTrouble(site, 'succeeded'), ...findEffectTrouble(site)];

export const recoveryOperations: readonly Operation[] = [
  defineOperation({
    name: 'recovery',
    title: 'a runtime was killed, its command has ended since: the end is found and recorded, the run goes on',
    prepare: leaveKilled,
    act: () => ['serve', '--until-idle'],
    endsAlike: false,
    findTrouble,
  }),
  defineOperation({
    name: 'recovery-after-reboot',
    title: 'a machine went down while a command ran: the attempt is lost, and is tried again',
    prepare: async (site) => {
      await leaveKilled(site);
      rmSync(site.run, { recursive: true, force: true });
    },
    act: () => ['serve', '--until-idle', '--boot-id', 'another-boot'],
    endsAlike: false,
    findTrouble,
  }),
];
