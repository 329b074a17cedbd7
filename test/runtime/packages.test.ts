// Which package files stay, and which go when.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { setAsideRun } from '../../src/protocol/set-aside.ts';
import type { Engine } from '../../src/runtime/engine.ts';
import { createScene, endOf, type Scene, startRun } from './scene.ts';

const installed = ({ data }: Scene) => readdirSync(join(data, 'packages')).sort();

/** Installs a package whose one command is this line; its name is `scene` where none is given. */
async function install({ root }: Scene, { verbs }: Engine, shell: string, name = 'scene') {
  const directory = join(root, 'package');
  const tasks = { work: { shell } };
  const workflows = { main: { steps: { one: { task: 'work' } } } };
  mkdirSync(directory, { recursive: true });
  writeFileSync(
    join(directory, 'qinglong.json'),
    JSON.stringify({ schema: 'qinglong/package@v1', name, version: '1', tasks, workflows }),
  );
  return (await verbs.install({ path: directory })).outcome;
}

const waiting = ({ root }: Scene) => `while [ ! -e ${join(root, 'go')} ]; do sleep 0.05; done`;
const letGo = ({ root }: Scene) => writeFileSync(join(root, 'go'), '');

/** Anything that takes its turn behind a removal which was begun. */
const afterRemovals = ({ verbs }: Engine) =>
  verbs.changeLifecycle({ packageName: 'scene', to: 'disabled', reason: null });

t.test('files of a replaced generation go when the last run of it ends, while the process lives', async (t) => {
  const scene = createScene(t);
  const engine = await scene.open();
  await install(scene, engine, waiting(scene));
  const runIds = [await startRun(engine), await startRun(engine)];
  t.match(await install(scene, engine, 'true'), { kind: 'installed', previousGeneration: 1 });
  t.equal(installed(scene).length, 2, 'they are needed');
  letGo(scene);
  for (const runId of runIds) {
    t.match((await endOf(engine, runId)).run, { status: 'succeeded' });
  }
  await afterRemovals(engine);
  t.equal(installed(scene).length, 1);
});

t.test('files of a package that was removed go when the last run of it ends', async (t) => {
  const scene = createScene(t);
  const engine = await scene.open();
  await install(scene, engine, waiting(scene));
  const runId = await startRun(engine);
  await engine.verbs.changeLifecycle({ packageName: 'scene', to: 'uninstalled', reason: null });
  t.equal(installed(scene).length, 1, 'they are needed');
  letGo(scene);
  t.match((await endOf(engine, runId)).run, { status: 'succeeded' });
  await engine.close('detach');
  t.strictSame(installed(scene), [], 'the end of the process waits for a removal that was begun');
  t.strictSame(scene.lines, []);
});

t.test('a run that an earlier process left keeps its files until it ends, and no longer', async (t) => {
  const scene = createScene(t);
  const before = await scene.open({ drives: false });
  await install(scene, before, waiting(scene));
  const runId = await startRun(before);
  await install(scene, before, 'true');
  await before.close('detach');
  const engine = await scene.open();
  t.equal(installed(scene).length, 2);
  letGo(scene);
  await endOf(engine, runId);
  await afterRemovals(engine);
  t.equal(installed(scene).length, 1);
});

t.test('the install of any package removes what a killed process could not', async (t) => {
  const scene = createScene(t);
  const first = await scene.open({ drives: false });
  await install(scene, first, 'true');
  const partial = join(scene.data, 'packages', `${'a'.repeat(64)}.partial`);
  mkdirSync(partial);
  await install(scene, first, 'true', 'other');
  t.equal(installed(scene).length, 2);
  t.notOk(installed(scene).some((name) => name.endsWith('.partial')));
});

t.test('runs that were set aside keep their files, however many they are', async (t) => {
  const scene = createScene(t);
  const engine = await scene.open({ drives: false });
  const putAside = async (count: number) => {
    for (let index = 0; index < count; index += 1) {
      const runId = await startRun(engine);
      await engine.store.submit(operation(setAsideRun, { runId, code: 'damaged', summary: 'test' }));
    }
  };
  await install(scene, engine, 'true');
  await putAside(limits.pageMax);
  await install(scene, engine, 'exit 1');
  await putAside(1);
  await install(scene, engine, 'exit 2');
  t.equal(installed(scene).length, 3);
});
