// The mutations still fit the sources: each changes exactly one place, and no two have one name. That each is noticed
// is shown by `npm run mutate`.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { mutateText } from './mutate.ts';
import { mutations } from './mutations.ts';

const projectRoot = path.resolve(import.meta.dirname, '../..');

t.test('each mutation changes exactly one place of its source', async (t) => {
  for (const mutation of mutations) {
    const text = readFileSync(path.join(projectRoot, mutation.file), 'utf8');
    t.not(mutateText(text, mutation), text, mutation.name);
  }
  t.equal(new Set(mutations.map(({ name }) => name)).size, mutations.length);
});

t.test('a change that is not there, is there twice, or changes nothing is an error', async (t) => {
  const mutation = { name: 'sample', file: 'none', from: 'a', to: 'b' };
  t.equal(mutateText('cat', mutation), 'cbt');
  for (const text of ['dog', 'banana']) {
    t.throws(() => mutateText(text, mutation), /mutation "sample" matches/);
  }
  t.throws(() => mutateText('cat', { ...mutation, to: 'a' }), /mutation "sample" matches/);
});
