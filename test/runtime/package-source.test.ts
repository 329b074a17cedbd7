import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { computeLockDigest } from '../../src/core/revision.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { goodFiles, goodManifest, packageMistakes, writePackage } from './package-fixtures.ts';

t.test('a package directory is checked as a whole: manifest, revision, files and lock digest', async (t) => {
  const directory = writePackage(t.testdir());
  const checked = await checkPackage(directory);
  t.equal(checked.manifestFile, 'qinglong.yaml');
  t.equal(checked.revision.packageName, 'wan-watch');
  t.equal(checked.revision.lockDigest, checked.lockDigest);
  t.equal(checked.lockDigest, computeLockDigest(checked.files));
  t.strictSame(
    checked.files.map(({ path, mode, size }) => [path, mode, size]),
    [
      ['qinglong.yaml', 0o600, goodManifest.length],
      ['scripts/probe.sh', 0o700, 18],
      ['scripts/rotate.sh', 0o600, 13],
    ],
  );
});

t.test('the same content as JSON gives the same tasks and workflows', async (t) => {
  const { 'qinglong.yaml': _, ...scripts } = goodFiles;
  const manifest = {
    schema: 'qinglong/package@v1',
    name: 'wan-watch',
    version: '1.2.0',
    tasks: { probe: { run: ['./scripts/probe.sh', '--fast'] }, rotate: { run: ['sh', 'scripts/rotate.sh'], cwd: '.' } },
    workflows: { nightly: { steps: { probe: { task: 'probe' }, rotate: { task: 'rotate', needs: ['probe'] } } } },
  };
  const json = writePackage(t.testdir(), { ...scripts, 'qinglong.json': JSON.stringify(manifest) });
  const fromJson = await checkPackage(json);
  t.equal(fromJson.manifestFile, 'qinglong.json');
  const fromYaml = await checkPackage(writePackage(join(json, 'yaml')));
  t.strictSame(fromJson.manifest, fromYaml.manifest);
});

t.test('the lock digest knows executable bits, and nothing else of the mode', async (t) => {
  const directory = writePackage(t.testdir());
  const { lockDigest } = await checkPackage(directory);
  chmodSync(join(directory, 'scripts/rotate.sh'), 0o600);
  t.equal((await checkPackage(directory)).lockDigest, lockDigest);
  chmodSync(join(directory, 'scripts/rotate.sh'), 0o711);
  t.not((await checkPackage(directory)).lockDigest, lockDigest);
});

t.test('everything in the directory belongs to the package, but for .git and .qinglong-edge at its top', async (t) => {
  const directory = writePackage(t.testdir());
  const { lockDigest } = await checkPackage(directory);
  writePackage(directory, { '.git/HEAD': 'ref', '.qinglong-edge/qinglong.db': 'x' });
  const without = await checkPackage(directory);
  t.equal(without.lockDigest, lockDigest);
  t.strictSame(without.contents.scan.leftOut, ['.git', '.qinglong-edge']);
  writePackage(directory, { 'scripts/.git/HEAD': 'ref', '.hidden': 'x' });
  const { files } = await checkPackage(directory);
  t.strictSame(files.map(({ path }) => path).slice(0, 3), ['.hidden', 'qinglong.yaml', 'scripts/.git/HEAD']);
});

t.test('C017 a package with `scripts/签到 copy.py` and a task titled `小 工具` keeps both exactly', async (t) => {
  const manifest = goodManifest
    .replace('run: [./scripts/probe.sh, --fast]', 'title: 小 工具\n    run: ["./scripts/签到 copy.py"]')
    .replace('name: wan-watch', 'title: 每天\nname: wan-watch');
  const directory = writePackage(t.testdir(), {
    ...goodFiles,
    'qinglong.yaml': manifest,
    'scripts/签到 copy.py': '#!/usr/bin/env python3\n',
  });
  const { revision, files } = await checkPackage(directory);
  t.equal(revision.title, '每天');
  t.match(revision.tasks[0], { title: '小 工具', argv: ['./scripts/签到 copy.py'] });
  t.equal(files.at(-1)!.path, 'scripts/签到 copy.py');
});

t.test('every mistake of a YAML manifest is told with file, line and path, in the order of the lines', async (t) => {
  const directory = writePackage(t.testdir(), {
    'qinglong.yaml': [
      'schema: qinglong/package@v1',
      'name: Wan',
      'version: 1.2',
      'tasks:',
      '  probe:',
      '    run:',
      '      - ./scripts/gone.sh',
      '      - 5',
      '    timout: 30s',
      'workflows:',
      '  nightly:',
      '    schedule: "30 2 * * *"',
      '    steps:',
      '      a: { task: prope, needs: [b] }',
      '      b: { task: probe, needs: [a] }',
    ].join('\n'),
  });
  t.strictSame(await packageMistakes(directory), [
    'qinglong.yaml:2 name: must be 1 to 63 of a-z, 0-9 and -, neither beginning nor ending with -',
    'qinglong.yaml:3 version: must be text, but is the number 1.2: put it in quotes',
    'qinglong.yaml:7 tasks.probe.run[0]: names scripts/gone.sh, which is no file of this package',
    'qinglong.yaml:8 tasks.probe.run[1]: must be text, but is the number 5: put it in quotes',
    'qinglong.yaml:9 tasks.probe.timout: is not a known key; did you mean timeout?',
    'qinglong.yaml:12 workflows.nightly.schedule: is not supported in this version',
    'qinglong.yaml:14 workflows.nightly.steps.a.task: names prope, which is no task; did you mean probe?',
    'qinglong.yaml:14 workflows.nightly.steps.a.needs: form a cycle: a -> b -> a',
  ]);
});

t.test('C050 two steps with one name are refused with both lines, in YAML and in JSON', async (t) => {
  const twice = goodManifest.replace('rotate: { task: rotate, needs: [probe] }', 'probe: { task: rotate }');
  const yaml = writePackage(t.testdir({}), { ...goodFiles, 'qinglong.yaml': twice });
  t.strictSame(await packageMistakes(yaml), [
    'qinglong.yaml:14 workflows.nightly.steps.probe: is here for the second time (the first is on line 13)',
  ]);
  const json = `{"schema": "qinglong/package@v1", "name": "x", "version": "1",
    "tasks": {"a": {"run": ["true"]}},
    "workflows": {"w": {"steps": {
      "s": {"task": "a"},
      "s": {"task": "a", "needs": ["t"]}}}}}`;
  const directory = join(yaml, 'json');
  t.strictSame(await packageMistakes(writePackage(directory, { 'qinglong.json': json })), [
    'qinglong.json:5 workflows.w.steps.s: is here for the second time (the first is on line 4)',
    'qinglong.json:5 workflows.w.steps.s.needs[0]: names t, which is no step of this workflow',
  ]);
});

t.test('a mistake at a missing field has the line of what surrounds it', async (t) => {
  const manifest = goodManifest.replace('probe: { task: probe }', 'probe: {}');
  const directory = writePackage(t.testdir(), { ...goodFiles, 'qinglong.yaml': manifest });
  t.strictSame(await packageMistakes(directory), ['qinglong.yaml:13 workflows.nightly.steps.probe.task: is missing']);
});

t.test('C072 a manifest that is empty or cut off anywhere is refused', async (t) => {
  const directory = writePackage(t.testdir());
  const { lockDigest } = await checkPackage(directory);
  let refused = 0;
  for (let length = 0; length < goodManifest.length - 2; length += 1) {
    writeFileSync(join(directory, 'qinglong.yaml'), goodManifest.slice(0, length));
    const mistakes = await packageMistakes(directory);
    // Cut inside the last step, what is left is a whole package again, under another digest.
    refused += mistakes.length > 0 ? 1 : 0;
    if (mistakes.length === 0) {
      t.not((await checkPackage(directory)).lockDigest, lockDigest, `cut at ${length}`);
    }
  }
  t.ok(refused > goodManifest.indexOf('steps:'), `${refused} cuts refused`);
});

t.test('a manifest must be there, once, in UTF-8, and not too large', async (t) => {
  const directory = t.testdir();
  t.match(await packageMistakes(directory), [/^qinglong\.yaml:- : is missing \(a package has/]);
  writePackage(directory, { 'qinglong.yml': goodManifest });
  t.match(await packageMistakes(directory), [/^qinglong\.yaml:- : is missing: rename qinglong\.yml/]);
  writePackage(directory, { ...goodFiles, 'qinglong.json': '{}' });
  t.strictSame(await packageMistakes(directory), [
    'qinglong.json:- : must not stand beside qinglong.yaml: a package has one manifest',
  ]);
  const latin = join(directory, 'latin');
  writePackage(latin, { ...goodFiles, 'qinglong.yaml': Buffer.from(`# ok\n# ${'\u00e9'}\n${goodManifest}`, 'latin1') });
  t.strictSame(await packageMistakes(latin), ['qinglong.yaml:2 : is no UTF-8']);
  const large = writePackage(join(directory, 'large'));
  truncateSync(join(large, 'qinglong.yaml'), limits.manifestBytesMax + 1);
  t.match(await packageMistakes(large), [/qinglong\.yaml:- : has 1048577 bytes, at most 1048576 are allowed/]);
});

t.test('a byte order mark before the manifest is no part of it', async (t) => {
  const directory = writePackage(t.testdir(), { ...goodFiles, 'qinglong.yaml': `\ufeff${goodManifest}` });
  t.strictSame(await packageMistakes(directory), []);
});

t.test('a relative command must be an executable file of the package', async (t) => {
  const manifest = goodManifest
    .replace('run: [sh, scripts/rotate.sh]', 'run: [./rotate.sh]')
    .replace('cwd: .', 'cwd: scripts');
  const directory = writePackage(t.testdir(), { ...goodFiles, 'qinglong.yaml': manifest });
  t.strictSame(await packageMistakes(directory), [
    'qinglong.yaml:8 tasks.rotate.run[0]: names scripts/rotate.sh, which is not executable: chmod +x scripts/rotate.sh',
  ]);
  chmodSync(join(directory, 'scripts/rotate.sh'), 0o755);
  t.strictSame(await packageMistakes(directory), []);
  const wrong = manifest.replace('./scripts/probe.sh', './scripts/gone.sh').replace('./rotate.sh', '../scripts/');
  writePackage(directory, { 'qinglong.yaml': wrong.replace('cwd: scripts', 'cwd: nowhere') });
  t.strictSame(await packageMistakes(directory), [
    'qinglong.yaml:6 tasks.probe.run[0]: names scripts/gone.sh, which is no file of this package',
    'qinglong.yaml:8 tasks.rotate.run[0]: names scripts, which is a directory',
    'qinglong.yaml:9 tasks.rotate.cwd: names nowhere, which is no directory of this package that holds a file',
  ]);
});

t.test('links, devices, FIFOs and sockets are refused, all at once, with their names', async (t) => {
  // The path of a socket has at most 107 bytes, less than the fixtures of a test take.
  const outside = mkdtempSync(join(tmpdir(), 'package-'));
  t.teardown(() => rmSync(outside, { recursive: true }));
  const directory = writePackage(join(outside, 'package'));
  symlinkSync('../secret', join(directory, 'leaving'));
  symlinkSync('/etc/passwd', join(directory, 'absolute'));
  symlinkSync('scripts/probe.sh', join(directory, 'staying'));
  symlinkSync('..', join(directory, 'scripts/up'));
  linkSync(join(directory, 'scripts/rotate.sh'), join(directory, 'hard'));
  execFileSync('mkfifo', [join(directory, 'fifo')]);
  const server = createServer().listen(join(directory, 'socket'));
  await once(server, 'listening');
  t.strictSame([...(await packageMistakes(directory))].sort(), [
    'absolute:- : is a symbolic link to something outside of the package: put the file itself there',
    'fifo:- : is a FIFO: a package holds regular files only',
    'hard:- : is a hard link (2 names for one file): put a copy in its place',
    'leaving:- : is a symbolic link to something outside of the package: put the file itself there',
    'scripts/rotate.sh:- : is a hard link (2 names for one file): put a copy in its place',
    'scripts/up:- : is a symbolic link: put the file itself there',
    'socket:- : is a socket: a package holds regular files only',
    'staying:- : is a symbolic link: put the file itself there',
  ]);
  server.close();
  await once(server, 'close');
});

t.test('a manifest that is a link is refused as one, and is not reported missing as well', async (t) => {
  const outside = t.testdir({ 'qinglong.yaml': goodManifest, package: {} });
  symlinkSync('../qinglong.yaml', join(outside, 'package/qinglong.yaml'));
  t.match(await packageMistakes(join(outside, 'package')), [
    /^qinglong\.yaml:- : is a symbolic link to something outside/,
  ]);
});

t.test('set-user-ID bits are refused', async (t) => {
  const directory = writePackage(t.testdir());
  chmodSync(join(directory, 'scripts/probe.sh'), 0o4755);
  t.match(await packageMistakes(directory), [/^scripts\/probe\.sh:- : has a set-user-ID or set-group-ID bit/]);
});

t.test('names that collide in case or composition, and names that are no UTF-8, are refused', async (t) => {
  const directory = writePackage(t.testdir(), {
    ...goodFiles,
    'Scripts/x': '',
    'a/Straße': '',
    'a/STRASSE': '',
    'a/\u00e9': '',
    'a/e\u0301': '',
  });
  writeFileSync(Buffer.concat([Buffer.from(join(directory, 'a/')), Buffer.from([0x66, 0xff])]), '');
  t.strictSame([...(await packageMistakes(directory))].sort(), [
    'a/f\ufffd:- : has a name that is no UTF-8',
    'a/\u00e9:- : differs from e\u0301 in case alone: one of them must have another name',
    'scripts:- : differs from Scripts in case alone: one of them must have another name',
  ]);
});

t.test('names that would break a line or move a terminal are refused', async (t) => {
  const names = ['two\nlines', 'scripts/tab\t', '\u001b[2J/x', 'del\u007f', 'c1\u0085', 'separator\u2028'];
  const directory = writePackage(t.testdir(), {
    ...goodFiles,
    ...Object.fromEntries(names.map((name) => [name, ''])),
    'scripts/签到 copy.py': '',
  });
  const rule = 'has a control character in its name, such as a line break';
  const told = ['two\nlines', 'scripts/tab\t', '\u001b[2J', 'del\u007f', 'c1\u0085', 'separator\u2028'];
  t.strictSame([...(await packageMistakes(directory))].sort(), told.map((name) => `${name}:- : ${rule}`).sort());
});

t.test('paths, entries and bytes are bounded', async (t) => {
  const directory = writePackage(t.testdir());
  const deep = Array(5).fill('d'.repeat(250)).join('/');
  // Made step by step: the whole path is longer than the kernel takes at once in some calls.
  mkdirSync(join(directory, deep), { recursive: true });
  t.match(await packageMistakes(directory), [/^(d+\/){4}d+:- : is too long a name: 255 bytes are allowed, 1024/]);

  const heavy = writePackage(t.testdir({ heavy: {} }));
  writeFileSync(join(heavy, 'big'), '');
  truncateSync(join(heavy, 'big'), limits.packageBytesMax);
  t.match(await packageMistakes(heavy), [/^\.:- : holds [0-9]+ bytes, at most 67108864 are allowed/]);
});

t.test('a directory with too many entries is given up, and nothing else is said about it', async (t) => {
  const directory = t.testdir();
  for (let index = 0; index <= limits.packageFilesMax; index += 1) {
    mkdirSync(join(directory, `d${index}`));
  }
  t.strictSame(await packageMistakes(directory), [
    '.:- : holds too many entries: 4096 files and directories are allowed',
  ]);
});

t.test('beyond a hundred mistakes the others are counted', async (t) => {
  const directory = writePackage(t.testdir());
  for (let index = 0; index < 150; index += 1) {
    symlinkSync('/', join(directory, `link${index}`));
  }
  const mistakes = await packageMistakes(directory);
  t.equal(mistakes.length, 101);
  t.equal(mistakes[100], 'null:- : there are 50 more mistakes');
});

t.test('what is no directory is invalid, with a hint', async (t) => {
  const directory = writePackage(t.testdir());
  for (const path of [join(directory, 'nowhere'), join(directory, 'qinglong.yaml')]) {
    await t.rejects(checkPackage(path), {
      code: 'invalid',
      hint: /give the directory that (holds qinglong\.yaml|it is in)/,
    });
  }
});

t.test('a JSON package never evaluates the yaml library; a YAML one does', async (t) => {
  const script = join(import.meta.dirname, 'package-checker.ts');
  const evaluated = (directory: string) =>
    execFileSync(process.execPath, [script, directory], { encoding: 'utf8', env: {} }).trim();
  const yaml = writePackage(t.testdir());
  t.equal(evaluated(yaml), 'yaml');
  const { 'qinglong.yaml': _, ...scripts } = goodFiles;
  const task = { run: ['true'] };
  const manifest = { schema: 'qinglong/package@v1', name: 'x', version: '1', tasks: { a: task }, workflows: {} };
  const json = writePackage(join(yaml, 'json'), { ...scripts, 'qinglong.json': JSON.stringify(manifest) });
  t.equal(evaluated(json), 'nothing');
});
