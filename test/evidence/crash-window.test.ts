// The preload kills where it says, and a round of kills through an admission leaves what it must.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { admissionWindows, findFigureTrouble } from '../../edge-evidence/crash-window/admission-windows.ts';
import { collectCrashWindows } from '../../edge-evidence/crash-window/collect.ts';
import type { Observation, Reached } from '../../edge-evidence/crash-window/point.ts';
import { preloadWith, usePreload } from '../../edge-evidence/crash-window/preload.ts';
import { closeBench, openBench, openWindow } from '../../edge-evidence/crash-window/window.ts';
import { runBundle } from '../../edge-evidence/operation.ts';
import { bundleFile, carryOut, makeEvidenceSite, operationOf } from './site.ts';

t.test('the preload tells every write and both sides of the commit, and changes nothing', async (t) => {
  const site = makeEvidenceSite(t, 'delete-extra');
  const operation = operationOf('admission');
  await operation.prepare(site);
  const file = join(site.root, 'observation');
  const answer = await runBundle(site, operation.act(site), preloadWith({ kill: null, file }));
  t.same(operation.findTrouble(site, answer), []);
  const { points, facts, commits } = JSON.parse(readFileSync(file, 'utf8')) as Observation;
  const names = points.map(({ name }) => name);
  t.equal(commits, 1);
  t.same(names.slice(names.indexOf('after INSERT INTO RunIdentities')), [
    'after INSERT INTO RunIdentities',
    'after INSERT INTO RunRecords',
    'after INSERT INTO RunEvents',
    ...['after INSERT INTO RunRecords', 'after INSERT INTO RunEvents'],
    ...['after INSERT INTO RunRecords', 'after INSERT INTO RunEvents'],
    'after INSERT INTO QingLong3PluginPackageWorkflowAdmissions',
    'after INSERT INTO QingLong3PluginPackageWorkflowAdmissionSteps',
    'after INSERT INTO QingLong3PluginPackageWorkflowAdmissionSteps',
    'after INSERT INTO AdmissionKeys',
    'before COMMIT',
    'after COMMIT',
  ]);
  t.not(facts[points.at(-1)!.facts], facts[points.at(-2)!.facts]);
});

t.test('the preload kills at exactly the point that it was told, and only there', async (t) => {
  const site = makeEvidenceSite(t, 'wal-full');
  const operation = operationOf('settings-set');
  await operation.prepare(site);
  const file = join(site.root, 'reached');
  const killed = await runBundle(site, operation.act(site), preloadWith({ kill: 2, file }));
  t.equal(killed.signal, 'SIGKILL');
  const reached = JSON.parse(readFileSync(file, 'utf8')) as Reached;
  t.equal(reached.number, 2);
  const beyond = join(site.root, 'beyond');
  const ended = await runBundle(site, operation.act(site), preloadWith({ kill: 1000, file: beyond }));
  t.same([ended.code, ended.signal], [0, null]);
  t.notOk(existsSync(beyond));
});

// From here on the shipped preload: it is loaded in a tenth of the time of its sources.
const evidenceBundle = join(import.meta.dirname, '../../dist/qinglong-edge-evidence.cjs');

t.test('a round through all windows of an admission: 7 leave nothing, 1 everything, and each replays', async (t) => {
  usePreload(evidenceBundle);
  const part = await collectCrashWindows(
    {
      bundle: bundleFile,
      scratch: t.testdir({}),
      modes: ['wal-full'],
      isQuick: true,
      seed: 1,
      log: (line) => t.comment(line),
    },
    [operationOf('admission')],
  );
  t.same(
    part.scenarios.map(({ name, passed }) => [name, passed]),
    [...admissionWindows.map(({ name }) => [name, true]), ['admission', true]],
  );
  for (const [index, window] of admissionWindows.entries()) {
    t.same(findFigureTrouble(window, part.scenarios[index]!.figures), [], window.name);
  }
});

t.test('a window tells when what is left, or what comes of it, is not what it must be', async (t) => {
  const operation = operationOf('publisher-add');
  const bench = await openBench(operation, { bundle: bundleFile, mode: 'delete-extra', root: t.testdir({}) });
  t.teardown(() => closeBench(bench));
  t.same(bench.failures, []);
  const { points, facts } = bench.observation;
  const last = points.length;
  t.same((await openWindow(bench, last, 0)).failures, []);
  // As if the commit had been acknowledged before it was made, and the end had been another one.
  const lost = { ...bench, observation: { ...bench.observation, points: points.with(last - 2, points.at(-1)!) } };
  t.match((await openWindow(lost, last - 1, 0)).failures, [/not killed there/, /holds what commit 0 made, not 1/]);
  t.match((await openWindow({ ...bench, finalFacts: facts[0]! }, last, 1)).failures, [/does not end as one that was/]);
  t.match((await openWindow(bench, last + 1, 0)).failures, [/not killed there in 1 executions/, /holds what commit 1/]);
});

t.test('an operation with commands is killed, goes on, and its effects are compared with its records', async (t) => {
  const site = makeEvidenceSite(t, 'delete-full');
  t.same(await carryOut(site, operationOf('kept-output')), []);
  const operation = operationOf('advance');
  const bench = await openBench(operation, { bundle: bundleFile, mode: 'delete-full', root: t.testdir({}) });
  t.teardown(() => closeBench(bench));
  const commit = bench.observation.points.findIndex(({ name }) => name === 'after COMMIT') + 1;
  t.same((await openWindow(bench, commit, 1)).failures, []);
});
