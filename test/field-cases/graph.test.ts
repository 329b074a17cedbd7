// Field cases: the workflow graph. What a step's end means for those that need it, and which graphs are refused.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { RunInspection } from '../../src/runtime/inspection.ts';
import { cli, createSite, type Site, writePackage } from '../product/product.ts';
import { type Shape, shapes } from './dag-shapes.ts';
import {
  ask,
  follow,
  install,
  linesOf,
  makeGate,
  packageOf,
  profiles,
  serve,
  startRun,
  statesOf,
  stop,
  wrote,
} from './scene.ts';

const ends = {
  succeeds: { shell: 'echo "$QL_STEP_KEY" >>"$ROOT/order"' },
  fails: { shell: 'exit 2' },
  'times out': { shell: 'exec sleep 600', timeout: '100ms', grace: '100ms' },
} as const;

function writeShape(site: Site, { steps }: Shape): string {
  const tasks = Object.entries(steps).map(([key, { needs, end }]) => [key, { ...ends[end], needs }]);
  return packageOf(site, Object.fromEntries(tasks));
}

/** Each step as the shapes say it: its status, or why it was skipped. */
function outcomesOf({ steps }: RunInspection): Record<string, string | null> {
  return Object.fromEntries(
    steps.map(({ stepKey, status, errorSummary }) => [stepKey, status === 'skipped' ? errorSummary : status]),
  );
}

async function runShape(t: Test, site: Site, profile: string, directory: string): Promise<RunInspection> {
  const ended = await cli(t, site, '--profile', profile, 'run', directory, '--json');
  return JSON.parse(ended.out.trim().split('\n').at(-1)!);
}

for (const profile of profiles) {
  for (const [id, shape] of Object.entries(shapes)) {
    t.test(`C047: ${profile}, shape ${id}: ${shape.what}`, async (t) => {
      const site = createSite(t);
      const shown = await runShape(t, site, profile, writeShape(site, shape));
      t.same(outcomesOf(shown), shape.expected);
      t.equal(shown.run.status, shape.run);
      for (const step of shown.steps.filter(({ status }) => status === 'skipped')) {
        t.match(step, { resultCode: 'dependency_not_succeeded', attemptCount: 0, attempts: [] });
      }
      const order = linesOf(site, 'order');
      for (const [key, { needs }] of Object.entries(shape.steps)) {
        t.ok(!order.includes(key) || needs.every((need) => order.indexOf(need) < order.indexOf(key)), key);
      }
    });
  }

  t.test(`C047: ${profile}, a need that was cancelled: its child is cancelled with the run, not skipped`, async (t) => {
    const site = createSite(t);
    const steps = {
      a: { shell: 'echo >>"$ROOT/ready"; exec sleep 600' },
      b: { shell: 'true', needs: ['a'] },
      c: { shell: 'true', needs: ['b'] },
    };
    await install(t, site, profile, packageOf(site, steps));
    const daemon = await serve(t, site);
    const runId = await startRun(t, site);
    await wrote(site, 'ready');
    t.equal((await cli(t, site, 'runs', 'cancel', runId)).code, 0);
    const shown = await follow(t, site, runId);
    t.same(statesOf(shown), { a: ['cancelled', 1], b: ['cancelled', 0], c: ['cancelled', 0] });
    await stop(t, daemon);
  });
}

// Shape D04. With one slot (edge) the slow arm would keep the failing one waiting: there it is not slow.
for (const profile of profiles) {
  t.test(
    `C048: ${profile}, a failure in one arm skips what needs it, lets the other arm finish, and ends the run`,
    async (t) => {
      const site = createSite(t);
      const gate = makeGate(t, site);
      const isSlow = profile === 'standalone';
      const steps = {
        a: { shell: 'true' },
        b: { shell: 'true', needs: ['a'] },
        c: { shell: isSlow ? 'read x <"$ROOT/gate"; echo >>"$ROOT/c"' : 'echo >>"$ROOT/c"', needs: ['a'] },
        d: { shell: 'exit 2', needs: ['b'] },
        e: { shell: 'echo >>"$ROOT/e"', needs: ['d'] },
      };
      await install(t, site, profile, packageOf(site, steps));
      const daemon = await serve(t, site);
      const shown = await follow(t, site, await startRun(t, site), ({ type }) => {
        if (type === 'step.skipped') {
          t.equal(linesOf(site, 'c').length, isSlow ? 0 : 1, 'while the slow arm still runs');
          gate.open();
        }
      });
      t.same(statesOf(shown), {
        a: ['succeeded', 1],
        b: ['succeeded', 1],
        c: ['succeeded', 1],
        d: ['failed', 1],
        e: ['skipped', 0],
      });
      t.match(shown.run, { status: 'failed', errorCode: 'workflow_step_failed' });
      t.same(linesOf(site, 'e'), []);
      await stop(t, daemon);
    },
  );
}

const task = 'tasks: { work: { run: [/bin/true] } }';

/** Graphs that nobody can run, with what has to be said of them. */
const refusals: Readonly<Record<string, { readonly case: string; readonly steps: string; readonly says: RegExp }>> = {
  'no steps': { case: 'C048', steps: '{}', says: /workflows\.main\.steps.* 0/ },
  'a need that there is not': {
    case: 'C050',
    steps: '{ fetch: { task: work }, merge: { task: work, needs: [fetsh] } }',
    says: /fetsh.*fetch/,
  },
  'a step that needs itself': { case: 'C050', steps: '{ a: { task: work, needs: [a] } }', says: /a -> a/ },
  'two that need each other': {
    case: 'C050',
    steps: '{ a: { task: work, needs: [b] }, b: { task: work, needs: [a] } }',
    says: /a -> b -> a/,
  },
  'a cycle apart from a valid part': {
    case: 'C050',
    steps: `{ x: { task: work }, y: { task: work, needs: [x] },
      a: { task: work, needs: [b] }, b: { task: work, needs: [a] } }`,
    says: /a -> b -> a/,
  },
  'a cycle with a tail (shape D12)': {
    case: 'C050',
    steps: `{ a: { task: work, needs: [d] }, b: { task: work, needs: [a] }, c: { task: work, needs: [b] },
      d: { task: work, needs: [c] }, z: { task: work, needs: [a] } }`,
    says: /a -> (b -> c -> d|d -> c -> b) -> a/,
  },
  'the same need twice': {
    case: 'C050',
    steps: '{ a: { task: work }, b: { task: work, needs: [a, a] } }',
    says: /a.*twice/,
  },
  'two steps with one name': {
    case: 'C050',
    steps: '{ a: { task: work }, a: { task: work } }',
    says: /steps\.a is here for the second time/,
  },
  'a task that there is not': { case: 'C050', steps: '{ a: { task: wrok } }', says: /wrok.*work/ },
};

for (const [what, { case: id, steps, says }] of Object.entries(refusals)) {
  t.test(`${id}: ${what} is refused at install in words, and nothing is half installed`, async (t) => {
    const site = createSite(t);
    const yaml = (graph: string, version: string) => ({
      'qinglong.yaml': `schema: qinglong/package@v1
name: case
version: ${version}
${task}
workflows:
  main:
    steps: ${graph}
`,
    });
    const good = writePackage(join(site.root, 'good'), yaml('{ a: { task: work } }', '1.0.0'));
    const broken = writePackage(join(site.root, 'bad'), yaml(steps, '2.0.0'));
    for (const command of [['package', 'check'], ['package', 'install'], ['run']]) {
      const refused = await cli(t, site, ...command, broken);
      t.equal(refused.code, 2, `${command.join(' ')}: ${refused.out}`);
      t.match(refused.err, says);
      t.match(refused.err, /workflows\.main/, 'with its place');
    }
    t.notOk(existsSync(join(site.data, 'packages')) && readdirSync(join(site.data, 'packages')).length > 0);
    await install(t, site, 'edge', good);
    t.equal((await cli(t, site, 'package', 'install', broken)).code, 2);
    const { packages } = await ask<{ packages: { version: string; generation: number }[] }>(t, site, [
      'package',
      'list',
    ]);
    t.match(packages, [{ version: '1.0.0', generation: 1 }]);
    t.equal((await cli(t, site, 'workflow', 'start', 'case/main', '--wait')).code, 0, 'the old one is still active');
  });
}
