// Every golden value here was computed outside this project, with Python's hashlib and with `openssl dgst -sha256`.
import t from 'tap';
import { digest, digestLabels } from '../../src/core/digest.ts';
import { sha256 } from '../../src/core/hash.ts';
import { revisionLabels } from '../../src/core/revision.ts';

// printf 'qinglong/run@v1\0{"a":"é \\"€\\"\\n","b":[1,true,null]}' | openssl dgst -sha256
const value = { b: [1, true, null], a: 'é "€"\n' };
const golden: Readonly<Record<keyof typeof digestLabels, string>> = {
  plan: '472eb058eb42c06bf7ccce65e012ce0be973fe9eaf7e4cdb54bdc2b0dde79450',
  receipt: 'a124d912493df88dbeb0c44da4faf16b20f1de821a98ee3485751b64a2a54e4b',
  run: 'f34e11ccf5a7c5935161690290bcaf3f504bba772d9a80b058610cbde6b854f2',
  runHistory: '87485accbeee470d4985d856ebfe95c98c27f47a625050806a72284d44d9c43b',
  stepRun: '123318629e489c03b02c2f39af674e603a94bfc26e3c14798b550de1c5c160da',
  attempt: 'd7ee365e7c076173136d2ef0fa7191d1e2abe86bffe2d63e4f8ecf00e212cf42',
  publication: '1d27c6cf9104fe720d0be3d3ee8143b7e0ad4becd7fd3c32fb647d28e7431029',
  lifecycleEvent: 'ad2e1e09bb186a1de09fc4fa46a2fd89a4b565518b98e3800b891f973c408953',
  generation: '26d74a319e21ced357008b4d3245a0146cf27adde85aac1cc9e35b2b8fca91bd',
  execution: 'ef18fcf0837647524c173f5f3cc0772871515dacd99e0a4ccc0a3b119824a50a',
  packageSetting: '5174597c9b607253a5d6c817c2470f111f2e32205151582c1c4e09e8e4d78cea',
  publisherKeyId: 'c30b0602a5a4b8c53483b030d481e176638a5f789a625182c3f16b7f7e99ea08',
  eventId: '2f039a39dbdffc687ada98d57c67b202f2e54cff9887764891cdd1943ef4a1b0',
  mutationId: '85bae8c34bf0158e99b37c7a8ec4d246bda205c33b70a4295ae67a4681ceed90',
  attemptId: '32f2ada42c39d81f5ef2a49f87f8adbb5e92fc888af4415d0c69f6547d500652',
  stepRunId: 'c9cba05907844368f6c48f8674b199b51af1842a69b589df1a94fc81b639d076',
};

t.test('the digest of one value under every label is the golden one', async (t) => {
  for (const [name, expected] of Object.entries(golden)) {
    t.equal(digest(digestLabels[name as keyof typeof digestLabels], value), expected, name);
  }
  t.equal(digest('', {}), '28a3a18f6cd6406b086e9ffda1f9b8a13dbcf44b0f3f32cb9031a11fd053acf9');
});

t.test('every kind of record has a label of its own, with its version', async (t) => {
  const labels = [...Object.values(digestLabels), ...Object.values(revisionLabels)];
  t.equal(new Set(labels).size, labels.length);
  for (const label of labels) {
    t.match(label, /^qinglong\/[a-z-]+@v[0-9]+$/);
  }
});

t.test('a NUL parts label and value, so that no label runs over into a value', async (t) => {
  t.equal(digest('qinglong/run@v1', {}), sha256('qinglong/run@v1\0{}'));
  t.not(digest('qinglong/run@v1', {}), sha256('qinglong/run@v1{}'));
  t.not(digest('a', 'b'), digest('a"b', ''));
});

t.test('the order of keys does not change a digest, any other change does', async (t) => {
  t.equal(digest('l', { a: 1, b: 2 }), digest('l', { b: 2, a: 1 }));
  t.not(digest('l', { a: 1, b: 2 }), digest('l', { a: 2, b: 1 }));
  t.not(digest('l', { a: null }), digest('l', {}));
  t.not(digest('l', [1, 2]), digest('l', [2, 1]));
  t.not(digest('l', '1'), digest('l', 1));
});

t.test('SHA-256 of text is that of its UTF-8 bytes', async (t) => {
  t.equal(sha256(''), 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
  t.equal(sha256('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  t.equal(sha256('é€😀'), sha256(Buffer.from('é€😀', 'utf8')));
});
