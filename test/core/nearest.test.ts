import t from 'tap';
import { didYouMean, nearestName } from '../../src/core/nearest.ts';

const keys = ['title', 'run', 'shell', 'timeout', 'grace', 'retry', 'needs'];

t.test('a letter too many, too few, wrong or exchanged is near; so is another case', async (t) => {
  for (const [written, meant] of [
    ['timeoutt', 'timeout'],
    ['timout', 'timeout'],
    ['tineout', 'timeout'],
    ['tiemout', 'timeout'],
    ['TimeOut', 'timeout'],
    ['need', 'needs'],
    ['rnu', 'run'],
  ] as const) {
    t.equal(nearestName(written, keys), meant);
  }
});

t.test('what is far from everything, too short or too long has no nearest name', async (t) => {
  for (const written of ['command', 'r', 'rn', 'concurrency', 't'.repeat(64), '']) {
    t.equal(nearestName(written, keys), null, written);
  }
});

t.test('of equally near names the first is taken', async (t) => {
  t.equal(nearestName('step', ['stop', 'stem']), 'stop');
  t.equal(didYouMean('timout', keys), '; did you mean timeout?');
  t.equal(didYouMean('elsewhere', keys), '');
});
