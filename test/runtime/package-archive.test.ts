import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { copyPackage } from '../../src/runtime/package-copy.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { goodFiles, goodManifest, packageMistakes, writePackage } from './package-fixtures.ts';
import { type Entry, gzOf, packageEntries, pax, tarOf, writeArchive } from './tar-fixtures.ts';

/** `file: rule` of every mistake in an archive with the good package and these entries beside it. */
async function mistakesWith(t: Test, ...entries: readonly (Entry | Buffer)[]): Promise<readonly string[]> {
  const mistakes = await packageMistakes(writeArchive(t, gzOf([...packageEntries(), ...entries])));
  return mistakes.map((mistake) => mistake.replace(':- ', ''));
}

async function lockOfDirectory(t: Test, files?: Readonly<Record<string, string>>): Promise<string> {
  return (await checkPackage(writePackage(join(t.testdir(), 'directory'), files))).lockDigest;
}

t.test('an archive has the lock digest of the directory with the same files, whoever packed it', async (t) => {
  const directory = writePackage(join(t.testdir(), 'wan-watch'));
  mkdirSync(join(directory, 'empty'));
  const { lockDigest, files } = await checkPackage(directory);
  const long = {
    ...goodFiles,
    [`scripts/${'x'.repeat(60)}/${'y'.repeat(50)}/签到 copy.py`]: '#!/usr/bin/env python3\n',
  };
  const longDirectory = writePackage(join(directory, '../long'), long);
  const withLong = (await checkPackage(longDirectory)).lockDigest;
  for (const format of ['v7', 'oldgnu', 'gnu', 'ustar', 'pax']) {
    const file = join(directory, `../${format}.tgz`);
    execFileSync('tar', ['-czf', file, `--format=${format}`, '-C', directory, '.']);
    const checked = await checkPackage(file);
    t.equal(checked.lockDigest, lockDigest, format);
    t.strictSame(checked.files, files, format);
    if (format !== 'v7') {
      execFileSync('tar', ['-czf', file, `--format=${format}`, '-C', longDirectory, '.']);
      t.equal((await checkPackage(file)).lockDigest, withLong, `${format} with long names`);
    }
  }
  const file = join(directory, '../busybox.tar');
  execFileSync('busybox', ['tar', '-cf', file, '-C', longDirectory, '.']);
  t.equal((await checkPackage(file)).lockDigest, withLong, 'busybox, not compressed');
});

t.test(
  'one directory around everything is not part of the package: npm pack, git archive, a packed folder',
  async (t) => {
    const lockDigest = await lockOfDirectory(t);
    for (const root of ['package/', 'wan-watch-1.2.0/', './wan-watch-1.2.0/', '小 工具/']) {
      const directory = { name: root, type: '5', mode: 0o755 };
      const archive = gzOf([directory, ...packageEntries(goodFiles, root)]);
      t.equal((await checkPackage(writeArchive(t, archive))).lockDigest, lockDigest, root);
      t.equal(
        (await checkPackage(writeArchive(t, gzOf(packageEntries(goodFiles, root))))).lockDigest,
        lockDigest,
        root,
      );
    }
    const repository = writePackage(join(t.testdir(), 'repository'));
    const git = (...args: readonly string[]) =>
      execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', '-C', repository, ...args], { env: {} });
    git('init', '-q');
    git('add', '.');
    git('commit', '-qm', 'x');
    git('archive', '--format=tar.gz', '--prefix=wan-watch-1.2.0/', '-o', '../git.tar.gz', 'HEAD');
    t.equal((await checkPackage(join(repository, '../git.tar.gz'))).lockDigest, lockDigest, 'git archive');
  },
);

t.test('what is left out of a directory is left out of an archive: .git, .qinglong-edge, qinglong.sig', async (t) => {
  const lockDigest = await lockOfDirectory(t);
  const beside = [
    { name: '.git/HEAD', body: 'ref' },
    { name: '.git/a link', type: '2', linkName: '/etc' },
    { name: '.qinglong-edge/qinglong.db', body: 'x' },
  ];
  const without = await checkPackage(writeArchive(t, gzOf([...packageEntries(), ...beside])));
  t.equal(without.lockDigest, lockDigest);
  t.strictSame(without.contents.scan.leftOut, ['.git', '.qinglong-edge']);
  const deeper = await checkPackage(writeArchive(t, gzOf([...packageEntries(), { name: 'scripts/.git/HEAD' }])));
  t.not(deeper.lockDigest, lockDigest);
});

t.test('what would be left out is refused where it names a place outside', async (t) => {
  for (const name of ['.git/../../evil', '.qinglong-edge/..', 'qinglong.sig/../x']) {
    const archive = writeArchive(t, gzOf([...packageEntries(), { name, body: 'x' }]));
    await t.rejects(checkPackage(archive), { code: 'invalid', mistakes: [{ rule: /\.\./ }] }, name);
  }
});

t.test('names come from extended headers as from plain ones', async (t) => {
  const name = `scripts/${'é'.repeat(60)}/签到.sh`;
  const lockDigest = await lockOfDirectory(t, { ...goodFiles, [name]: 'x' });
  const short = { name: 'cut off', body: 'x' };
  const forms: Readonly<Record<string, readonly Entry[]>> = {
    pax: [pax({ path: name, mtime: '1.5', 'SCHILY.xattr.user.a': 'b=c\n', comment: '' }), short],
    'pax with a size': [pax({ size: '1', path: name }), { ...short, size: 0 }],
    'GNU long name': [{ name: '././@LongLink', type: 'L', body: `${name}\0`, magic: 'ustar  \0' }, short],
    'a prefix': [{ name: '签到.sh', prefix: `scripts/${'é'.repeat(60)}`, body: 'x' }],
    'a global comment': [pax({ comment: 'abc' }, 'g'), pax({ path: name }), short],
    'a size in base 256': [
      pax({ path: name }),
      { ...short, size: Buffer.from([0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]) },
    ],
  };
  for (const [form, entries] of Object.entries(forms)) {
    const archive = writeArchive(t, gzOf([...packageEntries(), ...entries]));
    t.equal((await checkPackage(archive)).lockDigest, lockDigest, form);
  }
});

t.test('everything that a package must not hold is refused, all at once, and nothing is written', async (t) => {
  const mistakes = await mistakesWith(
    t,
    { name: '../outside', body: 'x' },
    { name: 'scripts/../../outside', body: 'x' },
    { name: 'scripts/../inside', body: 'x' },
    { name: '/etc/cron.d/absolute', body: 'x' },
    { name: 'leaving', type: '2', linkName: '/etc/passwd' },
    { name: 'staying', type: '2', linkName: 'scripts/probe.sh' },
    { name: 'hard', type: '1', linkName: 'qinglong.yaml' },
    { name: 'sda', type: '4' },
    { name: 'tty', type: '3' },
    { name: 'pipe', type: '6' },
    { name: 'volume', type: 'V' },
    { name: 'setuid', body: 'x', mode: 0o4755 },
    { name: 'setgid', body: 'x', mode: 0o2755 },
    { name: Buffer.from([0x61, 0xff]), body: 'x' },
    { name: 'two\nlines', body: 'x' },
    { name: 'a\u001b[2J/x', body: 'x' },
    { name: 'Scripts/probe.sh', body: 'x' },
    { name: 'QINGLONG.yaml', body: 'x' },
    { name: 'scripts/probe.sh', body: 'other' },
    { name: 'scripts', body: 'a file' },
    { name: 'qinglong.yaml/in-a-file', body: 'x' },
    pax({ path: `${'d'.repeat(256)}/x` }),
    { name: 'long', body: 'x' },
    pax({ path: Array.from({ length: 300 }, () => 'long').join('/') }),
    { name: 'longer', body: 'x' },
  );
  const tooLong = /: is too long a name: 255 bytes are allowed, 1024 for a whole path$/;
  t.match(mistakes, [
    '../outside: has a .. in its name: an archive must hold names inside of the package',
    'scripts/../../outside: has a .. in its name: an archive must hold names inside of the package',
    'scripts/../inside: has a .. in its name: an archive must hold names inside of the package',
    '/etc/cron.d/absolute: has an absolute name: an archive must hold names inside of the package',
    'leaving: is a symbolic link: put the file itself there',
    'staying: is a symbolic link: put the file itself there',
    'hard: is a hard link: put a copy in its place (tar --hard-dereference)',
    'sda: is a device: a package holds regular files only',
    'tty: is a device: a package holds regular files only',
    'pipe: is a FIFO: a package holds regular files only',
    'volume: is an entry of an unknown kind: a package holds regular files only',
    'setuid: has a set-user-ID or set-group-ID bit: take it away',
    'setgid: has a set-user-ID or set-group-ID bit: take it away',
    'a\ufffd: has a name that is no UTF-8',
    'two\nlines: has a control character in its name, such as a line break',
    'a\u001b[2J/x: has a control character in its name, such as a line break',
    'Scripts: differs from scripts in case alone: one of them must have another name',
    'QINGLONG.yaml: differs from qinglong.yaml in case alone: one of them must have another name',
    'scripts/probe.sh: is in the archive twice',
    'scripts: is a file and a directory in the archive',
    'qinglong.yaml: is a file and a directory in the archive',
    tooLong,
    tooLong,
  ]);
});

t.test('a manifest in an archive is told about with its lines, like one in a directory', async (t) => {
  const broken = {
    ...goodFiles,
    'qinglong.yaml': goodManifest.replace('probe: { task: probe }', 'probe: { task: x }'),
  };
  const inArchive = await packageMistakes(writeArchive(t, gzOf(packageEntries(broken, 'package/'))));
  t.strictSame(inArchive, await packageMistakes(writePackage(join(t.testdir(), 'directory'), broken)));
  t.match(inArchive, [/^qinglong\.yaml:13 workflows\.nightly\.steps\.probe\.task: names x/]);
  const without = await packageMistakes(writeArchive(t, gzOf([{ name: 'a' }, { name: 'b' }])));
  t.match(without, [/^qinglong\.yaml:- : is missing/]);
  t.match(await packageMistakes(writeArchive(t, gzOf([]))), [/^qinglong\.yaml:- : is missing/], 'an empty archive');
});

t.test('what never ends, or is no file, is not waited for', async (t) => {
  const directory = t.testdir();
  const fifo = join(directory, 'x.tar.gz');
  execFileSync('mkfifo', [fifo]);
  symlinkSync('/dev/zero', join(directory, 'zero.tar'));
  for (const path of [fifo, join(directory, 'zero.tar'), '/dev/zero', join(directory, 'nowhere.tgz')]) {
    await t.rejects(checkPackage(path), { code: 'invalid', message: /neither a directory nor an archive/ }, path);
  }
});

t.test('an archive is known by its bytes, not by its name; another file by the directory that it is in', async (t) => {
  const lockDigest = await lockOfDirectory(t);
  for (const name of ['package', 'wan-watch.1', 'x.gz']) {
    t.equal((await checkPackage(writeArchive(t, gzOf(packageEntries()), name))).lockDigest, lockDigest);
    t.equal((await checkPackage(writeArchive(t, tarOf(packageEntries()), name))).lockDigest, lockDigest);
  }
  const file = writeArchive(t, Buffer.from('#!/bin/sh\n'), 'probe.sh');
  await t.rejects(checkPackage(file), { code: 'invalid', message: /is a file, not the directory of a package/ });
});

t.test('a copy from an archive has the bytes and modes of one from a directory', async (t) => {
  const root = t.testdir();
  const archive = await checkPackage(writeArchive(t, gzOf(packageEntries(goodFiles, 'package/'))));
  const packagesDirectory = join(root, 'data/packages');
  mkdirSync(join(root, 'data'));
  const { directory } = await copyPackage({ checked: archive, packagesDirectory });
  for (const [path, content] of Object.entries(goodFiles)) {
    t.equal(readFileSync(join(directory, path), 'utf8'), content);
  }
  t.equal(statSync(join(directory, 'scripts/probe.sh')).mode & 0o777, 0o700);
  t.equal(statSync(join(directory, 'qinglong.yaml')).mode & 0o777, 0o600);
  const fromDirectory = await checkPackage(writePackage(join(root, 'directory')));
  t.equal((await copyPackage({ checked: fromDirectory, packagesDirectory })).outcome, 'existing');
  writeFileSync(join(directory, 'scripts/rotate.sh'), 'altered');
  t.match(await copyPackage({ checked: archive, packagesDirectory }), { mended: ['scripts/rotate.sh'] });
});

t.test('an archive that is changed between check and copy is refused, and nothing is left', async (t) => {
  const other = { ...goodFiles, 'scripts/rotate.sh': 'echo Rotated\n' };
  const { 'scripts/rotate.sh': _, ...fewer } = goodFiles;
  const changes: Readonly<Record<string, (file: string, bytes: Buffer) => void>> = {
    'other bytes': (file) => writeFileSync(file, gzOf(packageEntries(other))),
    'a file less': (file) => writeFileSync(file, gzOf(packageEntries(fewer))),
    'other modes': (file) => writeFileSync(file, gzOf(packageEntries().map((entry) => ({ ...entry, mode: 0o755 })))),
    'cut off': (file, bytes) => truncateSync(file, bytes.length - 20),
    gone: (file) => truncateSync(file, 0),
  };
  for (const [name, change] of Object.entries(changes)) {
    const bytes = gzOf(packageEntries());
    const file = writeArchive(t, bytes);
    const checked = await checkPackage(file);
    change(file, bytes);
    const packagesDirectory = join(file, '../data/packages');
    mkdirSync(join(file, '../data'));
    await t.rejects(copyPackage({ checked, packagesDirectory }), { code: 'invalid' }, name);
    t.strictSame(readdirSync(packagesDirectory), [], name);
  }
});

t.test('several compressed parts in one file are one archive, as gzip has it', async (t) => {
  const tar = gunzipSync(gzOf(packageEntries()));
  const parts = Buffer.concat([gzipSync(tar.subarray(0, 700)), gzipSync(tar.subarray(700))]);
  t.equal((await checkPackage(writeArchive(t, parts))).lockDigest, await lockOfDirectory(t));
});

t.test('scripts that would not start as they are meant are warned of, in a directory as in an archive', async (t) => {
  const files = {
    ...goodFiles,
    'scripts/probe.sh': '#!/bin/sh\r\necho up\r\n',
    'scripts/bom.py': '\ufeff#!/usr/bin/env python3\n',
    'scripts/plain.sh': 'echo x\r\n',
    'scripts/sound.sh': '#!/bin/sh\necho "\r\n"\n',
    'data.csv': 'a,b\r\n',
  };
  const expected = [
    {
      file: 'scripts/bom.py',
      rule: 'begins with a byte order mark, so its #! is not seen: save it as UTF-8 without one',
    },
    { file: 'scripts/plain.sh', rule: 'has lines that end in CRLF as on Windows: convert them to LF' },
    { file: 'scripts/probe.sh', rule: 'has lines that end in CRLF as on Windows: convert them to LF' },
  ];
  const directory = await checkPackage(writePackage(join(t.testdir(), 'directory'), files));
  t.strictSame(directory.warnings, expected);
  const archive = await checkPackage(writeArchive(t, gzOf(packageEntries(files, 'package/'))));
  t.strictSame(
    [...archive.warnings].sort((one, other) => (one.file < other.file ? -1 : 1)),
    expected,
  );
});
