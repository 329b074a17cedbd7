// Lets the bundle come back to a disk that a cut has left, and bring the operation to its end.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findDatabaseTrouble } from '../database.ts';
import { readFacts } from '../facts.ts';
import { derivedIds } from '../fold-form.ts';
import { databaseOf, runBundle, type Site } from '../operation.ts';
import type { Image } from './disk.ts';
import { type Recorded, restoreImage, type Subject, waitForCommands } from './record.ts';
import type { Judge } from './standard.ts';

export type Return = {
  readonly image: Image;
  readonly recorded: Recorded;
  readonly judge: Judge;
  /** After a power cut nothing of the run directory is left, and the boot is another one. */
  readonly isRebooted: boolean;
};

/** What is wrong at the end, one line each. */
export async function findReturnTrouble(subject: Subject, back: Return): Promise<readonly string[]> {
  const { image, isRebooted } = back;
  const site = restoreImage(subject, image, { isRebooted });
  writeFileSync(join(site.root, 'trace'), traceAt(back));
  return await findEndTrouble(subject, site, back);
}

/** The same for a site that stands as a real kill has left it. */
export async function findEndTrouble(
  subject: Subject,
  site: Site,
  { recorded, isRebooted }: Pick<Return, 'recorded' | 'isRebooted'>,
): Promise<readonly string[]> {
  const { operation } = subject;
  const env: Readonly<Record<string, string>> = isRebooted ? { QINGLONG_EDGE_BOOT_ID: 'after-the-cut' } : {};
  const answer = await runBundle(site, operation.again(site), { env });
  await waitForCommands(site);
  const database = databaseOf(site);
  try {
    const isAlike = !operation.endsAlike || readFacts(database) === recorded.endFacts;
    return [
      ...findDatabaseTrouble(database),
      ...operation.findTrouble(site, answer),
      ...(isAlike ? [] : ['it ends with other facts than uncut']),
    ];
  } catch (error) {
    return [`its end cannot be read: ${(error as Error).message}; it ended with ${answer.code}: ${answer.err.trim()}`];
  }
}

const started = {
  table: 'RunAttempts',
  sql: `SELECT i.runId, s.stepKey, a.stepRunVersion AS epoch FROM RunAttempts AS a
          JOIN RunIdentities AS i ON i.runKey = a.runKey
          JOIN QingLong3PluginPackageWorkflowAdmissionSteps AS s ON s.recordKey = a.runKey * 256 + a.stepNumber
         WHERE a.startedAtMs IS NOT NULL`,
};

/**
 * What commands had noted by the cut, which no call of the process tells: every command that was recorded as started
 * is taken to have run to its end, as it does after a kill. Those that had not begun are missing.
 */
function traceAt({ image, recorded, judge }: Return): string {
  const known = new Set(
    judge
      .query(image, started)
      .map(({ runId, stepKey, epoch }) =>
        derivedIds.attempt(`${runId}`, derivedIds.stepRun(`${runId}`, `${stepKey}`), Number(epoch)),
      ),
  );
  const trace = recorded.after.get('trace');
  const lines = trace?.kind === 'file' ? trace.bytes.toString().split('\n') : [];
  return lines
    .filter((line) => known.has(line.split(' ').at(-1) ?? ''))
    .map((line) => `${line}\n`)
    .join('');
}
