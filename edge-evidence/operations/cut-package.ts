// The package whose work is cut. Its commands note what they do in one file of the site, found from the installed copy,
// so that a site can stand anywhere; what they noted is compared with what the records say.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { derivedIds } from '../fold-form.ts';
import { mustRun, queryRows, readSiteFile, type Site, unless } from '../operation.ts';

export const packageName = 'cut';

/** `work.sh STATUS SECONDS`: notes its beginning, prints two lines, takes its time, notes its end. */
const workScript = `#!/bin/sh
trace="$QL_PACKAGE_DIR/../../../trace"
id="$QL_RUN_ID $QL_ATTEMPT_ID"
echo "begin $id" >>"$trace"
echo "step $QL_STEP_KEY"
[ "$2" = 0 ] || sleep "$2"
echo "answers $1"
echo "end $id" >>"$trace"
exit "$1"
`;

/** What the failing step prints, whichever attempt of it is kept. */
export const failedOutput = 'step fail\nanswers 3\n';

// What may or may not have run is done again, so that every run has one end that it must reach.
const retry = { limit: 5, backoff: '100ms', on: ['lost'] };
const task = (status: number, seconds: number, more: object = {}) => ({
  run: ['./work.sh', `${status}`, `${seconds}`],
  retry,
  ...more,
});

const workflows = {
  pair: { steps: { a: { task: 'work' }, b: { task: 'work', needs: ['a'] } } },
  diamond: {
    steps: {
      a: { task: 'work' },
      b: { task: 'work', needs: ['a'] },
      c: { task: 'work', needs: ['a'] },
      d: { task: 'work', needs: ['b', 'c'] },
    },
  },
  single: { steps: { a: { task: 'work' } } },
  failing: { steps: { fail: { task: 'fail' }, never: { task: 'work', needs: ['fail'] } } },
  slow: { steps: { a: { task: 'slow' }, b: { task: 'work', needs: ['a'] } } },
  stopped: { steps: { a: { task: 'stopped' } } },
  late: { timeout: '1ms', steps: { a: { task: 'work' } } },
};

export type WorkflowId = keyof typeof workflows;

/** Writes the package below the site's root; its files differ from one version to the next. Returns its directory. */
export function writeCutPackage(site: Site, version = '1.0.0'): string {
  const directory = join(site.root, `package-${version}`);
  mkdirSync(directory, { recursive: true });
  const manifest = {
    schema: 'qinglong/package@v1',
    name: packageName,
    version,
    tasks: {
      work: task(0, 0),
      fail: task(3, 0),
      slow: task(0, 0.2),
      stopped: task(0, 5, { timeout: '150ms', grace: '100ms' }),
    },
    workflows,
  };
  writeFileSync(join(directory, 'qinglong.json'), JSON.stringify(manifest));
  writeFileSync(join(directory, 'work.sh'), workScript, { mode: 0o755 });
  return directory;
}

export async function installCutPackage(site: Site): Promise<void> {
  await mustRun(site, 'package', 'install', writeCutPackage(site));
}

/** Admits one run, which waits for somebody who carries it on. */
export async function queueRun(site: Site, workflowId: WorkflowId): Promise<void> {
  await mustRun(site, 'workflow', 'start', `${packageName}/${workflowId}`);
}

/** The id of the site's oldest run: prepared runs have ids that nobody chose. */
export function firstRunId(site: Site): string {
  return `${queryRows(site, 'SELECT runId FROM RunIdentities ORDER BY runKey LIMIT 1')[0]?.['runId']}`;
}

/**
 * Compares what commands noted with the records: an attempt's command runs once at most, never without an attempt,
 * never where the record says that it did not start, and whatever is said to have ended by itself ran to its end.
 */
export function findEffectTrouble(site: Site): readonly string[] {
  const lines = readSiteFile(site, 'trace').split('\n');
  const countOf = (kind: string, id: string) =>
    lines.filter((line) => line.startsWith(`${kind} `) && line.endsWith(` ${id}`)).length;
  const attempts = queryRows(
    site,
    `SELECT i.runId, s.stepKey, a.stepRunVersion AS epoch, a.status, a.startedAtMs FROM RunAttempts AS a
       JOIN RunIdentities AS i ON i.runKey = a.runKey
       JOIN QingLong3PluginPackageWorkflowAdmissionSteps AS s ON s.recordKey = a.runKey * 256 + a.stepNumber`,
  ).map(({ runId, stepKey, epoch, status, startedAtMs }) => ({
    id: derivedIds.attempt(`${runId}`, derivedIds.stepRun(`${runId}`, `${stepKey}`), Number(epoch)),
    status: `${status}`,
    isStarted: startedAtMs !== null,
  }));
  const known = new Set(attempts.map(({ id }) => id));
  const noted = lines.filter((line) => line.startsWith('begin ')).map((line) => line.split(' ')[2] ?? '');
  return [
    ...noted.filter((id) => !known.has(id)).map((id) => `a command of attempt ${id} ran, which no record knows`),
    ...attempts.flatMap(({ id, status, isStarted }) => {
      const [begun, ended] = [countOf('begin', id), countOf('end', id)];
      const isOwnEnd = status === 'succeeded' || status === 'failed';
      return [
        ...unless(begun <= 1, `attempt ${id} ran ${begun} times`),
        ...unless(isStarted || begun === 0, `attempt ${id} ran without a durable start`),
        ...unless(!isOwnEnd || (begun === 1 && ended === 1), `attempt ${id} is ${status}, but ended ${ended} times`),
      ];
    }),
  ];
}

/** Exactly these runs, in the order of their admission, each with the state that it must have. */
export function findRunsTrouble(site: Site, ...expected: readonly string[]): readonly string[] {
  const rows = queryRows(site, 'SELECT status FROM RunRecords WHERE number = 0 ORDER BY recordKey');
  const found = rows.map(({ status }) => `${status}`).join(' ');
  return unless(found === expected.join(' '), `the runs are "${found}" instead of "${expected.join(' ')}"`);
}

/** The lines of the last answer's JSON document; what does not parse has nothing in it. */
export function readAnswer({ out }: { readonly out: string }): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(out) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}
