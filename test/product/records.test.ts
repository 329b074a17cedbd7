// What the product tells of a run is what its history says: checked by a second fold that shares no code with the
// first.
import { join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { foldHistory } from '../../edge-evidence/fold.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { EventInspection } from '../../src/runtime/inspection.ts';
import { cli, createSite, listRuns, printed, type Site, showRun, startCli, writePackage } from './product.ts';

const manifest = `schema: qinglong/package@v1
name: mixed
version: 1.0.0
tasks:
  good: { run: [/bin/true] }
  bad: { shell: "exit 3" }
  slow: { shell: "sleep 30", timeout: 200ms, grace: 100ms }
  flaky: { run: [./scripts/flaky.sh], retry: { limit: 2, backoff: 10ms } }
  long: { shell: "echo started; sleep 30", grace: 1s }
workflows:
  mixed:
    steps:
      good: { task: good }
      bad: { task: bad }
      skipped: { task: good, needs: [bad] }
      deeper: { task: good, needs: [skipped] }
      slow: { task: slow }
      flaky: { task: flaky }
  long:
    steps:
      first: { task: long }
      second: { task: good, needs: [first] }
`;
const flaky = `#!/bin/sh
if [ -e "$QL_PACKAGE_DIR/../../seen" ]; then exit 0; fi
: >"$QL_PACKAGE_DIR/../../seen"
exit 1
`;

/** The run as an independent reader of `runs events` sees it, in the form of `runs show`. */
async function foldShown(t: Test, site: Site, runId: string): Promise<void> {
  const shown = await showRun(t, site, runId);
  const told = await cli(t, site, 'runs', 'events', runId, '--json');
  t.equal(told.code, 0, told.err);
  const lines = told.out.trim().split('\n');
  const events = lines.map((line) => {
    const { mutationId: _derived, ...event } = JSON.parse(line) as EventInspection;
    return { ...event, runId } as unknown as RunEvent;
  });
  const folded = foldHistory(events);
  t.match(folded.run, shown.run);
  t.equal(folded.steps.length, shown.steps.length);
  for (const step of shown.steps) {
    const { stepRunId, taskId: _task, needs: _needs, dueAtMs: _due, attempts, ...fields } = step;
    t.match(
      folded.steps.find(({ id }) => id === stepRunId),
      fields,
      step.stepKey,
    );
    for (const { attempt: _ordinal, ...attempt } of attempts) {
      t.match(
        folded.attempts.find(({ id }) => id === attempt.id),
        attempt,
        `${step.stepKey}, attempt ${attempt.number}`,
      );
    }
  }
}

for (const profile of ['edge', 'standalone']) {
  t.test(`${profile}: succeeded, failed, skipped, timed out and retried steps fold to what is shown`, async (t) => {
    const site = createSite(t);
    const directory = writePackage(join(site.root, 'package'), {
      'qinglong.yaml': manifest,
      'scripts/flaky.sh': flaky,
    });
    const ended = await cli(t, site, '--profile', profile, 'run', directory, '--workflow', 'mixed');
    t.equal(ended.code, 1, ended.err);
    const [listed] = await listRuns(t, site);
    const { steps } = await showRun(t, site, listed?.id ?? '');
    t.same(Object.fromEntries(steps.map(({ stepKey, status, attemptCount }) => [stepKey, [status, attemptCount]])), {
      good: ['succeeded', 1],
      bad: ['failed', 1],
      skipped: ['skipped', 0],
      deeper: ['skipped', 0],
      slow: ['timed_out', 1],
      flaky: ['succeeded', 2],
    });
    await foldShown(t, site, listed?.id ?? '');
    t.equal((await cli(t, site, 'verify')).code, 0);
  });

  t.test(`${profile}: a cancelled run folds to what is shown`, async (t) => {
    const site = createSite(t);
    const directory = writePackage(join(site.root, 'package'), {
      'qinglong.yaml': manifest,
      'scripts/flaky.sh': flaky,
    });
    const running = startCli(t, site, ['--profile', profile, 'run', directory, '--workflow', 'long']);
    await printed(running, 'running (attempt 1)');
    const [listed] = await listRuns(t, site);
    t.equal((await cli(t, site, 'runs', 'cancel', listed?.id ?? '')).code, 0);
    t.equal((await running.ended).code, 130);
    const { run, steps } = await showRun(t, site, listed?.id ?? '');
    t.equal(run.status, 'cancelled');
    t.same(
      steps.map(({ status }) => status),
      ['cancelled', 'cancelled'],
    );
    await foldShown(t, site, listed?.id ?? '');
    t.equal((await cli(t, site, 'verify')).code, 0);
  });
}
