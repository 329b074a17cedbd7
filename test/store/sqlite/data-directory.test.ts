import { chmodSync, existsSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import {
  databaseState,
  findDataDirectory,
  fixSettings,
  makeDataDirectory,
  readConfigFile,
  readSettings,
  writeMarker,
} from '../../../src/store/sqlite/data-directory.ts';
import { settleSettings } from '../../../src/store/sqlite/profile.ts';

const none = { profile: null, durability: null };
const edge = { profile: 'edge', durability: 'delete-extra' } as const;

t.test('a missing directory is made with its parents, for its owner alone', async (t) => {
  const data = path.join(t.testdir(), 'a', 'b');
  const paths = makeDataDirectory(data);
  t.equal(paths.data, data);
  t.equal(statSync(data).mode & 0o777, 0o700);
  t.equal(statSync(path.dirname(data)).mode & 0o777, 0o700);
});

t.test('an empty directory is closed to others, one with other files keeps its mode', async (t) => {
  const root = t.testdir({ empty: {}, shared: { 'mine.txt': '' } });
  for (const name of ['empty', 'shared']) {
    chmodSync(path.join(root, name), 0o755);
    makeDataDirectory(path.join(root, name));
  }
  t.equal(statSync(path.join(root, 'empty')).mode & 0o777, 0o700);
  t.equal(statSync(path.join(root, 'shared')).mode & 0o777, 0o755);
});

t.test('a link to the directory is followed once, a file in its place refused', async (t) => {
  const root = t.testdir({ real: {}, file: '' });
  symlinkSync('real', path.join(root, 'link'));
  t.equal(makeDataDirectory(path.join(root, 'link')).data, path.join(root, 'real'));
  t.throws(() => makeDataDirectory(path.join(root, 'file')), { code: 'invalid' });
  t.throws(() => makeDataDirectory(path.join(root, 'file', 'below')), { code: 'invalid' });
  t.throws(() => makeDataDirectory('relative'), { name: 'InvariantError' });
});

t.test('a directory that is not ours is not found, and nothing is made there', async (t) => {
  const root = t.testdir({ empty: {} });
  t.throws(() => findDataDirectory(path.join(root, 'missing')), { code: 'not-found', hint: /--data/ });
  t.throws(() => findDataDirectory(path.join(root, 'empty')), { code: 'not-found' });
  t.same(readdirSync(path.join(root, 'empty')), []);
  t.notOk(existsSync(path.join(root, 'missing')));
});

t.test('a lost database is told from a fresh directory', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  t.equal(databaseState(paths), 'fresh', 'nothing there');
  writeMarker(paths, 'making');
  t.equal(databaseState(paths), 'fresh', 'interrupted before the database');
  writeFileSync(paths.database, 'half');
  t.equal(databaseState(paths), 'fresh', 'interrupted inside the database');
  writeMarker(paths, 'made');
  t.equal(databaseState(paths), 'made');
  writeFileSync(paths.database, '');
  t.throws(() => databaseState(paths), { code: 'damaged', message: /lost/, hint: /restore/ }, '0 bytes');
  const other = makeDataDirectory(t.testdir());
  writeMarker(other, 'made');
  t.throws(() => databaseState(other), { code: 'damaged', message: /lost/ }, 'missing');
});

t.test('a database without a valid marker is refused, not migrated', async (t) => {
  const paths = makeDataDirectory(t.testdir({ 'qinglong.db': 'some' }));
  t.throws(() => databaseState(paths), { code: 'damaged', message: /marker/ });
  writeFileSync(paths.marker, '{"database":');
  t.throws(() => databaseState(paths), { code: 'damaged', message: /marker/ });
});

t.test('settings are fixed in config.json beside what it says already', async (t) => {
  const paths = makeDataDirectory(t.testdir({ 'config.json': '{ "keep": [1] }' }));
  t.same(readSettings(paths), none);
  fixSettings(paths, edge);
  t.same(JSON.parse(readFileSync(paths.config, 'utf8')), { keep: [1], ...edge });
  t.equal(statSync(paths.config).mode & 0o777, 0o600);
  const { ino } = statSync(paths.config);
  fixSettings(paths, edge);
  t.equal(statSync(paths.config).ino, ino, 'the same settings again write nothing');
  t.same(readSettings(paths), edge);
});

t.test('a config.json that cannot be understood is refused with what is wrong', async (t) => {
  const paths = makeDataDirectory(t.testdir());
  for (const text of ['', '[]', '3', '{"profile":', '{"profile":"large"}', '{"durability":"off"}']) {
    writeFileSync(paths.config, text);
    t.throws(() => readSettings(paths), { code: 'invalid', hint: /./ }, text);
  }
});

t.test('every mistake in what is fixed is told with its file and key', async (t) => {
  const paths = makeDataDirectory(t.testdir({ 'config.json': '{ "profile": "cluster", "durability": "none" }' }));
  t.throws(() => readSettings(paths), {
    code: 'invalid',
    message: /profile must be edge or standalone, and durability must be/,
    mistakes: [
      { file: paths.config, path: 'profile' },
      { file: paths.config, path: 'durability' },
    ],
  });
});

t.test('whoever owns the other settings reads config.json as it is', async (t) => {
  const root = t.testdir({ empty: {}, kept: { 'config.json': '{ "concurrency": "many", "x": null }' } });
  t.equal(readConfigFile(path.join(root, 'empty')), null);
  t.equal(readConfigFile(path.join(root, 'none')), null);
  const kept = path.join(root, 'kept');
  const values = { concurrency: 'many', x: null };
  t.same(readConfigFile(kept), { path: path.join(kept, 'config.json'), values });
});

t.test('what the directory has wins over the default, never over what was asked for', async (t) => {
  t.same(settleSettings(none, none), edge);
  t.same(settleSettings({ profile: 'standalone', durability: null }, none), {
    profile: 'standalone',
    durability: 'wal-full',
  });
  t.same(settleSettings({ profile: null, durability: 'delete-full' }, none), {
    profile: 'edge',
    durability: 'delete-full',
  });
  t.same(settleSettings(none, { profile: null, durability: 'wal-full' }), {
    profile: 'standalone',
    durability: 'wal-full',
  });
  const message = /made with profile edge, not standalone/;
  t.throws(() => settleSettings({ profile: 'standalone', durability: null }, edge), { code: 'invalid', message });
  t.throws(() => settleSettings({ profile: null, durability: 'delete-full' }, edge), { code: 'invalid' });
  t.throws(() => settleSettings({ profile: 'edge', durability: 'wal-full' }, none), {
    code: 'invalid',
    hint: /delete-extra or delete-full/,
  });
});
