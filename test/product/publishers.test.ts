// Whose packages these are: signatures, what firmware allows, and the end of the trust in a key.
import { generateKeyPairSync } from 'node:crypto';
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { ask, go, pack, serve, stop, traceOf, writeVersion } from './package-scene.ts';
import { cli, createSite, type Site, showRun } from './product.ts';

function makeKey(site: Site, name: string): { readonly secret: string; readonly open: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const [secret, open] = [join(site.root, `${name}.pem`), join(site.root, `${name}.pub`)];
  writeFileSync(secret, privateKey.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 });
  writeFileSync(open, publicKey.export({ format: 'pem', type: 'spki' }));
  return { secret, open };
}

t.test('firmware that allows nothing unsigned takes what a trusted key signed, and nothing else', async (t) => {
  const site = createSite(t);
  go(site);
  t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
  const config = join(site.data, 'config.json');
  writeFileSync(config, JSON.stringify({ ...JSON.parse(readFileSync(config, 'utf8')), allowUnsigned: false }));
  const [key, stranger] = [makeKey(site, 'key'), makeKey(site, 'stranger')];
  const directory = writeVersion(site, '1.0.0');
  const { keyId } = await ask(t, site, ['publisher', 'add', key.open]);
  const refuse = async (what: string, said: RegExp) => {
    const refused = await ask(t, site, ['package', 'install', directory], 3);
    t.match(refused, { error: { code: 'not-allowed', message: said } }, what);
    t.strictSame(existsSync(join(site.data, 'packages')), false, 'nothing was copied');
  };
  await refuse('unsigned', /has no signature/);
  t.equal((await cli(t, site, 'package', 'sign', directory, stranger.secret)).code, 0);
  await refuse('signed by a stranger', /is signed by pk_[0-9a-f]{32}, which is not trusted here/);
  t.match(await ask(t, site, ['package', 'sign', directory, key.secret]), { signedBy: keyId });
  t.match(await ask(t, site, ['package', 'check', directory]), { signedBy: keyId });
  appendFileSync(join(directory, 'scripts/word.sh'), '#\n');
  t.match(await ask(t, site, ['package', 'install', directory], 2), {
    error: { code: 'invalid', message: 'qinglong.sig is not the signature of these files' },
  });
  await ask(t, site, ['package', 'sign', directory, key.secret]);
  const archive = pack(directory);
  const ran = await cli(t, site, 'run', archive);
  t.equal(ran.code, 0, ran.err);
  t.match(ran.err, new RegExp(`signed by ${keyId}`));
  t.match(await ask(t, site, ['package', 'verify', 'sample']), { signature: { state: 'trusted', keyId } });
  t.match(await ask(t, site, ['package', 'show', 'sample']), { signedBy: keyId });
});

t.test(
  'a signature beside an archive is as good as one inside; a developer is told of one that is not trusted',
  async (t) => {
    const site = createSite(t);
    const { secret, open } = makeKey(site, 'key');
    const archive = pack(writeVersion(site, '1.0.0'));
    const signed = await ask(t, site, ['package', 'sign', archive, secret]);
    t.equal(signed['file'], `${archive}.sig`);
    const install = await cli(t, site, 'package', 'install', archive);
    t.match(install, {
      code: 0,
      out: /signed by pk_[0-9a-f]{32}, which is not trusted here, so it counts as unsigned/,
    });
    t.match(await ask(t, site, ['package', 'verify', 'sample']), { signature: { state: 'unsigned' } });
    await ask(t, site, ['publisher', 'add', open]);
    t.match(await ask(t, site, ['package', 'install', archive]), {
      outcome: 'installed',
      generation: 2,
      trust: 'trusted',
    });
    t.match(await ask(t, site, ['package', 'install', archive]), { outcome: 'existing', trust: 'trusted' });
    writeFileSync(`${archive}.sig`, 'x');
    t.match(await ask(t, site, ['package', 'install', archive], 2), {
      error: { message: /qinglong\.sig is no signature/ },
    });
  },
);

t.test('a key that is revoked ends what runs of it, starts nothing more, and is never trusted again', async (t) => {
  const site = createSite(t);
  const { secret, open } = makeKey(site, 'key');
  const directory = writeVersion(site, '1.0.0');
  const daemon = await serve(t, site);
  const { keyId } = await ask(t, site, ['publisher', 'add', open]);
  await ask(t, site, ['package', 'sign', directory, secret]);
  await ask(t, site, ['package', 'install', directory]);
  const { runId } = await ask(t, site, ['workflow', 'start', 'sample/main']);
  const revoked = await ask(t, site, ['publisher', 'revoke', String(keyId), '--reason', 'leaked']);
  t.strictSame(revoked, { outcome: 'revoked', keyId, packages: ['sample'] });
  const revokedKey = `signed by key ${keyId}, which is revoked`;
  t.equal((await cli(t, site, 'runs', 'events', String(runId), '--follow')).code, 0);
  t.match(await showRun(t, site, String(runId)), { run: { status: 'cancelled', cancelReason: 'policy' } });
  t.match(await ask(t, site, ['workflow', 'start', 'sample/main'], 3), {
    error: { code: 'not-allowed', message: /the key that signed generation 1 of package sample was revoked/ },
  });
  t.match(await ask(t, site, ['package', 'install', directory], 3), {
    error: { message: `these bytes of package sample were ${revokedKey} (leaked)` },
  });
  rmSync(join(directory, 'qinglong.sig'));
  const other = makeKey(site, 'other');
  await ask(t, site, ['publisher', 'add', other.open]);
  for (const how of ['unsigned', 'signed anew']) {
    t.match(
      await ask(t, site, ['package', 'install', directory], 3),
      {
        error: {
          message: `these bytes of package sample were ${revokedKey} (leaked)`,
          hint: 'publish another version, signed by a trusted key',
        },
      },
      how,
    );
    await ask(t, site, ['package', 'sign', directory, other.secret]);
  }
  t.match(await cli(t, site, 'package', 'show', 'sample'), { out: /which is revoked: .* publish another version/ });
  await ask(t, site, ['package', 'disable', 'sample']);
  t.match(await ask(t, site, ['package', 'enable', 'sample'], 3), {
    error: { message: new RegExp(`was ${revokedKey}; publish another version, signed by a trusted key$`) },
  });
  t.match(await ask(t, site, ['publisher', 'add', open], 3), { error: { message: /was revoked \(leaked\)/ } });
  t.match(await ask(t, site, ['publisher', 'list']), {
    publishers: [{ keyId, revokeReason: 'leaked', packages: ['sample'] }, {}],
  });
  t.match((await cli(t, site, 'publisher', 'list')).out, new RegExp(`^${keyId} +revoked +.* sample +leaked$`, 'm'));
  t.match((await cli(t, site, 'package', 'list')).out, /^sample .* key revoked /m);
  t.match(await ask(t, site, ['package', 'verify', 'sample'], 3), {
    isSound: true,
    isForbidden: true,
    signature: { state: 'revoked', keyId },
  });
  await ask(t, site, ['package', 'sign', writeVersion(site, '1.0.1'), other.secret]);
  t.match(await ask(t, site, ['package', 'install', join(site.root, 'package-1.0.1')]), { trust: 'trusted' });
  t.match(await ask(t, site, ['package', 'verify', 'sample']), { isForbidden: false });
  t.match(await ask(t, site, ['publisher', 'revoke', 'pk_unknown', '--reason', 'x'], 3), {
    error: { code: 'not-found' },
  });
  await stop(t, daemon);
});

t.test('a revocation says what becomes of the bytes, whoever signs them', async (t) => {
  const site = createSite(t);
  const { keyId } = await ask(t, site, ['publisher', 'add', makeKey(site, 'key').open]);
  t.match(await cli(t, site, 'publisher', 'revoke', String(keyId), '--reason', 'leaked'), {
    code: 0,
    out: /stays refused, whoever signs it anew: publish another version, signed by a trusted key\n$/,
  });
});

t.test('a run that a revocation did not reach any more is cancelled by the next start', async (t) => {
  const site = createSite(t);
  const { secret, open } = makeKey(site, 'key');
  const directory = writeVersion(site, '1.0.0');
  const { keyId } = await ask(t, site, ['publisher', 'add', open]);
  await ask(t, site, ['package', 'sign', directory, secret]);
  const daemon = await serve(t, site);
  await ask(t, site, ['package', 'install', directory]);
  const { runId } = await ask(t, site, ['workflow', 'start', 'sample/main']);
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  // The fact alone, as a process that dies right behind its commit leaves it.
  const db = new DatabaseSync(join(site.data, 'qinglong.db'));
  db.prepare("UPDATE Publishers SET revokedAtMs = addedAtMs, revokeReason = 'leaked' WHERE keyId = ?").run(
    String(keyId),
  );
  db.close();
  t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
  t.match(await showRun(t, site, String(runId)), { run: { status: 'cancelled', cancelReason: 'policy' } });
  t.strictSame(traceOf(site), []);
});

t.test('a key file that is none, or a private one, is refused and not repeated', async (t) => {
  const site = createSite(t);
  const { secret, open } = makeKey(site, 'key');
  const refused = await cli(t, site, 'publisher', 'add', secret);
  t.match(refused, {
    code: 2,
    err: /key\.pem: this is a private key: only its owner may have it; make the public one/,
  });
  t.notMatch(refused.err, readFileSync(secret, 'utf8').split('\n')[1]!);
  t.match(await cli(t, site, 'package', 'sign', writeVersion(site, '1.0.0'), open), {
    code: 2,
    err: /no Ed25519 private key in PEM/,
  });
  t.match(await cli(t, site, 'publisher', 'add', join(site.root, 'none')), { code: 2, err: /there is no file/ });
});
