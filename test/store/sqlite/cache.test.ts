import t from 'tap';
import { createCache } from '../../../src/store/sqlite/cache.ts';

t.test('what was used last stays, within the bound of entries', async (t) => {
  const cache = createCache<number>();
  for (let entry = 0; entry < 64; entry += 1) {
    cache.put(`key ${entry}`, entry, 10);
  }
  t.equal(cache.get('key 0'), 0);
  cache.put('one more', 64, 10);
  t.equal(cache.get('key 0'), 0, 'was used since');
  t.equal(cache.get('key 1'), null, 'was not');
  t.equal(cache.get('one more'), 64);
  t.equal(cache.get('key 2'), 2);
});

t.test('the bound of bytes counts what is held, not what was', async (t) => {
  const cache = createCache<string>();
  const half = 128 * 1024;
  cache.put('a', 'first', half);
  cache.put('a', 'second', half);
  cache.put('b', 'third', half);
  t.equal(cache.get('a'), 'second');
  t.equal(cache.get('b'), 'third');
  cache.put('c', 'fourth', 1);
  t.equal(cache.get('a'), null);
});

t.test('one entry stays however large it is, and goes for the next', async (t) => {
  const cache = createCache<string>();
  cache.put('small', 'small', 1);
  cache.put('large', 'large', 4 * 1024 * 1024);
  t.equal(cache.get('small'), null);
  t.equal(cache.get('large'), 'large');
  cache.put('next', 'next', 1);
  t.equal(cache.get('large'), null);
  t.equal(cache.get('next'), 'next');
});
