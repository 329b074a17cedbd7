// A `serve` that is troubled while it works: started, waited for, asked, and ended, each within its limit.
import type { Site } from '../operation.ts';
import { findAnswerTrouble, quote, works } from './answer.ts';
import { type Launched, type LaunchOptions, launch } from './launch.ts';

export type Daemon = Launched & {
  /** SIGTERM. What is wrong with how it ended. */
  stop(): Promise<readonly string[]>;
  isAlive(): boolean;
};

/** Longer than any scenario: then it is hung. */
const daemonMsMax = 90_000;

/** Resolves when it serves, or has ended. */
export async function startDaemon(site: Site, options: LaunchOptions = {}): Promise<Daemon> {
  const launched = launch(site, ['serve'], { limitMs: daemonMsMax, ...options });
  await launched.spoke;
  return {
    ...launched,
    async stop() {
      launched.process.kill('SIGTERM');
      return findAnswerTrouble(await launched.answered, works).map((what) => `the daemon: ${what}`);
    },
    isAlive: () => launched.process.exitCode === null && launched.process.signalCode === null,
  };
}

/** What is wrong with a daemon that should be serving still. */
export async function findDeath(daemon: Daemon): Promise<readonly string[]> {
  if (daemon.isAlive()) {
    return [];
  }
  const { code, signal, err } = await daemon.answered;
  return [`the daemon ended with ${signal ?? code}, and was to go on${quote(err)}`];
}
