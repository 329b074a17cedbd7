import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { derivePublisherKeyId } from '../../src/core/ids.ts';
import {
  isSignatureOf,
  printSignature,
  readPublicKey,
  readSignatureFile,
  signLockDigest,
} from '../../src/runtime/package-signature.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { goodFiles, writePackage } from './package-fixtures.ts';
import { gzOf, packageEntries } from './tar-fixtures.ts';

// RFC 8410, section 10.3: a private key and its public key.
const privatePem = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
`;
const publicPem = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
`;
const publicHex = '19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1';
const lockDigest = 'ab'.repeat(32);

t.test('a public key is read as PEM, base64 or hex digits, and is the same key', async (t) => {
  for (const text of [
    publicPem,
    `\n${publicPem.replaceAll('\n', '\r\n')}`,
    publicHex,
    publicHex.toUpperCase(),
    Buffer.from(publicHex, 'hex').toString('base64'),
    `${Buffer.from(publicHex, 'hex').toString('base64').replace('=', '')}\n`,
  ]) {
    t.equal(readPublicKey(text), publicHex, text);
  }
});

t.test('what is no Ed25519 public key is refused, and a private one is never shown again', async (t) => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'pem', type: 'spki' });
  const x25519 = generateKeyPairSync('x25519').publicKey.export({ format: 'pem', type: 'spki' });
  const short = Buffer.alloc(31).toString('base64');
  for (const text of [
    '',
    'x',
    short,
    publicHex.slice(2),
    `${publicHex}00`,
    `${rsa}`,
    `${x25519}`,
    publicPem.slice(0, 60),
  ]) {
    t.throws(() => readPublicKey(text), { code: 'invalid', message: /Ed25519/ }, text);
  }
  for (const text of [privatePem, privatePem.replaceAll('PRIVATE', 'ENCRYPTED PRIVATE')]) {
    try {
      readPublicKey(text);
      t.fail('a private key was taken');
    } catch (error) {
      t.match(error, { code: 'invalid', message: /private key/, hint: /openssl pkey -in KEYFILE -pubout/ });
      t.notMatch(JSON.stringify(error, Object.getOwnPropertyNames(error)), 'INTuctv5E1hK');
    }
  }
});

t.test('a key of another kind is told as that, with the kind that is needed', async (t) => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 1024 });
  for (const type of ['spki', 'pkcs1'] as const) {
    t.throws(() => readPublicKey(`${publicKey.export({ format: 'pem', type })}`), {
      message: 'this is a key of another kind (RSA), and an Ed25519 public key is needed',
      hint: /openssl genpkey -algorithm ed25519/,
    });
    t.throws(() => readPublicKey(`${privateKey.export({ format: 'pem', type: 'pkcs8' })}`), {
      message: /private key.*another kind \(RSA\) where an Ed25519 one is needed/,
      hint: /openssl genpkey -algorithm ed25519/,
    });
  }
  t.throws(() => signLockDigest(lockDigest, `${privateKey.export({ format: 'pem', type: 'pkcs8' })}`), {
    message: 'this is no Ed25519 private key in PEM without a passphrase but a key of another kind (RSA)',
  });
  t.throws(() => readPublicKey('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'), {
    message: 'this is no key in PEM that can be read, and an Ed25519 public key is needed',
  });
});

t.test('what is signed is a label, a NUL and the lock digest: OpenSSL alone can make the same signature', async (t) => {
  const { keyId, publicKey, signature } = signLockDigest(lockDigest, privatePem);
  t.equal(publicKey, publicHex);
  t.equal(keyId, derivePublisherKeyId(publicHex));
  // printf 'qinglong/package-signature@v1\0abab…' >text; openssl pkeyutl -sign -rawin -inkey key.pem -in text | xxd -p
  t.equal(
    signature,
    'f7fecde751349e3b4d9e5b6d3108e32ea077b741da62276e34979cde711066f9' +
      '29e4999b33fd9de5d616cb406eee6135f584cb675fe25bf1a87c3f5e09478a05',
  );
  t.ok(isSignatureOf(lockDigest, { publicKey, signature }));
});

t.test('a signature is of these bytes, by this key, and of nothing else', async (t) => {
  const signed = signLockDigest(lockDigest, privatePem);
  const other = generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' });
  t.notOk(isSignatureOf('ac'.repeat(32), signed));
  t.notOk(isSignatureOf(lockDigest, { ...signed, publicKey: other.subarray(-32).toString('hex') }));
  t.notOk(isSignatureOf(lockDigest, { ...signed, publicKey: 'ff'.repeat(32) }), 'no point of the curve');
  for (const at of [0, 31, 32, 63]) {
    const bytes = Buffer.from(signed.signature, 'hex');
    bytes[at] = bytes[at]! ^ 1;
    t.notOk(isSignatureOf(lockDigest, { ...signed, signature: bytes.toString('hex') }), `byte ${at}`);
  }
});

t.test('a signature file is read back, and one of another form, or a wrong one, is refused', async (t) => {
  const signed = signLockDigest(lockDigest, privatePem);
  const text = printSignature(signed);
  t.strictSame(readSignatureFile(Buffer.from(text), lockDigest), signed);
  t.throws(() => readSignatureFile(Buffer.from(text), 'ac'.repeat(32)), {
    code: 'invalid',
    message: 'qinglong.sig is not the signature of these files',
  });
  const parts = JSON.parse(text) as Record<string, string>;
  const wrong = [
    '',
    'x',
    '[]',
    'null',
    '{}',
    JSON.stringify({ ...parts, schema: 'other' }),
    JSON.stringify({ ...parts, more: 1 }),
    JSON.stringify({ ...parts, signature: parts['publicKey'] }),
    JSON.stringify({ ...parts, publicKey: `${parts['publicKey']} ` }),
    JSON.stringify({ ...parts, signature: 5 }),
    Buffer.from([0xff, 0xfe]),
  ];
  for (const bytes of wrong) {
    t.throws(() => readSignatureFile(Buffer.from(bytes), lockDigest), {
      code: 'invalid',
      message: 'qinglong.sig is no signature of a package',
    });
  }
});

t.test('keys that cannot sign are refused with a way to make one', async (t) => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export({ format: 'pem', type: 'pkcs8' });
  const withPassphrase = generateKeyPairSync('ed25519').privateKey.export({
    format: 'pem',
    type: 'pkcs8',
    cipher: 'aes-128-cbc',
    passphrase: 'secret',
  });
  for (const pem of ['', 'x', publicPem, rsa, withPassphrase]) {
    t.throws(() => signLockDigest(lockDigest, `${pem}`), {
      code: 'invalid',
      hint: /openssl genpkey -algorithm ed25519/,
    });
  }
});

t.test(
  'a package is signed in its directory, inside of its archive or beside it, and the signature is no part of it',
  async (t) => {
    const directory = writePackage(join(t.testdir(), 'directory'));
    const unsigned = await checkPackage(directory);
    t.equal(unsigned.signature, null);
    const signed = signLockDigest(unsigned.lockDigest, privatePem);
    const text = printSignature(signed);
    writeFileSync(join(directory, 'qinglong.sig'), text);
    const checked = await checkPackage(directory);
    t.equal(checked.lockDigest, unsigned.lockDigest);
    t.strictSame(checked.signature, signed);
    const archive = join(directory, '../x.tgz');
    for (const root of ['', 'package/']) {
      writeFileSync(archive, gzOf(packageEntries({ ...goodFiles, 'qinglong.sig': text }, root)));
      const inside = await checkPackage(archive);
      t.strictSame(inside.signature, signed);
      t.equal(inside.lockDigest, unsigned.lockDigest);
      t.equal(inside.contents.signatureFile, null, 'there is one inside');
    }
    writeFileSync(`${archive}.sig`, text);
    await t.rejects(checkPackage(archive), { code: 'invalid', message: /has two signatures/ });
    writeFileSync(archive, gzOf(packageEntries()));
    t.strictSame((await checkPackage(archive)).signature, signed, 'beside it');
    writeFileSync(archive, gzOf(packageEntries({ ...goodFiles, 'scripts/rotate.sh': 'other' })));
    await t.rejects(checkPackage(archive), { code: 'invalid', message: /is not the signature of these files/ });
  },
);

t.test('what is under the name of a signature and is none is refused, never followed or waited for', async (t) => {
  const directory = writePackage(join(t.testdir(), 'directory'));
  const file = join(directory, 'qinglong.sig');
  const signed = printSignature(signLockDigest((await checkPackage(directory)).lockDigest, privatePem));
  writeFileSync(join(directory, '../elsewhere'), signed);
  const forms: Readonly<Record<string, () => void>> = {
    'a link': () => symlinkSync('../elsewhere', file),
    'a directory': () => mkdirSync(file),
    'too long': () => writeFileSync(file, signed.padEnd(5_000)),
    'cut off': () => writeFileSync(file, signed.slice(0, -40)),
    empty: () => writeFileSync(file, ''),
  };
  for (const [name, make] of Object.entries(forms)) {
    rmSync(file, { recursive: true, force: true });
    make();
    await t.rejects(checkPackage(directory), { code: 'invalid', mistakes: [{ file: 'qinglong.sig' }] }, name);
  }
  t.equal(readFileSync(join(directory, '../elsewhere'), 'utf8'), signed);
  t.ok(createPublicKey(publicPem));
});
