// A process or a machine that is short of descriptors or processes: nothing is taken for an answer that is none, and no
// attempt fails as if its command had.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import tap, { type Test } from 'tap';
import { type Shell, shells } from './stand.ts';

const program = path.join(import.meta.dirname, 'short-process.ts');
const uid = 54_321;
const descriptors = 'ulimit -n 64';
// Of its user; bash calls it -u, dash and BusyBox -p.
const processes = '{ ulimit -u 40 2>/dev/null || ulimit -p 40; }';

/** Another user, of whom nothing else runs here: its processes can be limited. */
function skipOtherUser(): string | false {
  if (process.getuid?.() !== 0) {
    return 'only root can be another user, whose processes can be limited';
  }
  try {
    execFileSync(process.execPath, [program, '', 'none'], { uid, gid: uid, stdio: 'ignore' });
    return 'unreachable';
  } catch (error) {
    // It ends with an error of its own when it can be started at all.
    return (error as { readonly status?: unknown }).status === 1 ? false : 'another user cannot read the project here';
  }
}

type Scenario = {
  readonly shell: Shell;
  readonly scenario: string;
  readonly script: string;
  readonly left?: number;
  readonly limit: string;
  readonly uid?: number;
};

async function run(t: Test, { shell, scenario, script, left = 0, limit, uid: asUid }: Scenario) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'short-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  if (asUid !== undefined) {
    chownSync(folder, asUid, asUid);
    chmodSync(folder, 0o700);
  }
  const gate = path.join(folder, 'gate');
  execFileSync('mkfifo', [gate]);
  const marker = path.join(folder, 'marker');
  const argv = ['/bin/sh', '-c', script.replaceAll('GATE', gate).replaceAll('MARKER', marker)];
  const specification = JSON.stringify({ shell: shell.command, argv, gate, left });
  const words = [process.execPath, program, path.join(folder, 'run'), scenario, specification];
  const child = spawn('/bin/sh', ['-c', `${limit} && exec "$@"`, 'sh', ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: '/usr/bin:/bin' },
    ...(asUid === undefined ? {} : { uid: asUid, gid: asUid }),
  });
  const ended = once(child, 'close');
  let text = '';
  child.stdout.on('data', (data) => {
    text += data;
  });
  await ended;
  return { ...JSON.parse(text), hasRun: existsSync(marker) };
}

function testEachShell(name: string, skip: string | false, body: (t: Test, shell: Shell) => Promise<void>): void {
  for (const shell of shells) {
    tap.test(`${name} (${shell.name})`, { skip: shell.skip || skip }, (t) => body(t, shell));
  }
}

const script = ': >MARKER; echo out; exit 7';

testEachShell('descriptors that are missing at the start are waited for', false, async (t, shell) => {
  for (const left of [0, 1, 2, 3]) {
    const seen = await run(t, { shell, scenario: 'descriptors at the start', script, limit: descriptors, left });
    t.ok(seen.end === null || seen.end.kind === 'exited', `${left} left: no end yet, unless these are enough`);
    t.match(seen.ended, { kind: 'exited', exitCode: 7, outputBytes: 4, note: null });
  }
});

testEachShell('descriptors that never come are told as that, and nothing ran', false, async (t, shell) => {
  const seen = await run(t, { shell, scenario: 'descriptors for good', script, limit: descriptors });
  t.match(seen.ended, { kind: 'spawn-failed', errorCode: 'resources_exhausted', errorSummary: /EMFILE/ });
  t.notOk(seen.hasRun);
});

testEachShell('without descriptors a receipt is not taken for missing', false, async (t, shell) => {
  const ending = 'read x <GATE; echo out; exit 7';
  const seen = await run(t, { shell, scenario: 'descriptors at the end', script: ending, limit: descriptors });
  t.same(seen.end, null, 'nobody can tell yet');
  t.same(seen.running, ['at-1']);
  t.match(seen.ended, { kind: 'exited', exitCode: 7, outputBytes: 4, note: null });
});

testEachShell('without descriptors a stop is made good by the next look', false, async (t, shell) => {
  for (const left of [0, 1]) {
    const seen = await run(t, {
      shell,
      scenario: 'descriptors at a stop',
      script: 'sleep 600',
      limit: descriptors,
      left,
    });
    t.same(seen.running, ['at-1']);
    t.match(seen.ended, { kind: 'exited', exitCode: 143, signal: 'SIGTERM', isForced: false });
  }
});

testEachShell(
  'with however few processes, a command runs and its end is true, or nothing ran',
  skipOtherUser(),
  async (t, shell) => {
    const kinds: string[] = [];
    for (let left = 0; left <= 6; left += 1) {
      const seen = await run(t, { shell, scenario: 'processes for good', script, limit: processes, left, uid });
      kinds.push(seen.ended.kind);
      t.equal(seen.hasRun, seen.ended.kind === 'exited', `${left} left`);
      if (seen.ended.kind === 'exited') {
        // A pump that cannot fork its dd ends: the command's output meets SIGPIPE, and the note says that some is
        // missing.
        const isWhole = seen.ended.exitCode === 7 && seen.ended.outputBytes === 4;
        t.ok(isWhole || /incomplete/.test(seen.ended.note), JSON.stringify(seen.ended));
      } else {
        t.match(seen.ended, { kind: 'spawn-failed', errorCode: 'resources_exhausted' }, JSON.stringify(seen.ended));
      }
    }
    t.comment(kinds.join(' '));
    t.ok(kinds.includes('exited') && kinds.includes('spawn-failed'));
  },
);

testEachShell('processes that are missing at the start are waited for', skipOtherUser(), async (t, shell) => {
  const seen = await run(t, { shell, scenario: 'processes at the start', script, limit: processes, uid });
  t.same(seen.end, null);
  t.match(seen.ended, { kind: 'exited', exitCode: 7, note: null });
});

testEachShell(
  'who is not root cannot run a command as another user, and says so',
  skipOtherUser(),
  async (t, shell) => {
    const seen = await run(t, { shell, scenario: 'another user', script, limit: descriptors, uid });
    const words = /only root can run a command as `root`, and this is user 54321/;
    t.match(seen.ended, { kind: 'spawn-failed', errorCode: 'user_not_permitted', errorSummary: words });
    t.notOk(seen.hasRun);
  },
);
