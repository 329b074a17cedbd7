import fc from 'fast-check';
import t from 'tap';
import { decodeJson, encodeJson } from '../../../src/store/postgres/jsonb.ts';
import { openServer } from './scene.ts';

const databases = await openServer(t);

// What is hard: the marker, NUL, halves of pairs, backslashes, and what looks like the codes of those.
const hard = fc.constantFrom('\uf8ff', '\u0000', '\ud800', '\udfff', '\\', '"', 'u0000', '0000', 'd800', '\u001f', 'é');
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.array(hard, { maxLength: 12 }).map((parts) => parts.join('')),
);

t.test('every text comes back out of jsonb as it went in', async (t) => {
  const texts = fc.sample(text, { numRuns: 500, seed: 7 });
  const values = texts.map((value, index) => `(${index}, '${encodeJson({ value }).replaceAll("'", "''")}'::jsonb)`);
  const rows = await databases.query(
    'postgres',
    `SELECT v.record::text AS record FROM (VALUES ${values.join(', ')}) AS v (number, record) ORDER BY v.number`,
  );
  t.same(
    rows.map(({ record }) => decodeJson(record as string)),
    texts.map((value) => ({ value })),
  );
});

t.test('nothing is written that PostgreSQL refuses, and what is written is read', async (t) => {
  fc.assert(
    fc.property(fc.array(text), (list) => {
      const written = encodeJson(list);
      t.notMatch(written, /(?:^|[^\\])(?:\\\\)*\\u(?:0000|d[89a-f])/);
      t.same(decodeJson(written), list);
    }),
    { numRuns: 200 },
  );
});
