// A few random scripts; `npm run differential` plays a thousand.
import t from 'tap';
import { playScript, preparePair } from './differential.ts';

const pair = await preparePair(t);
const seed = Number(process.env['QL_TEST_SEED'] ?? 1);

for (let index = 0; index < 8; index += 1) {
  t.test(`the same script gives the same on SQLite and PostgreSQL: --scripts 1 --from ${seed + index}`, async (t) => {
    t.ok((await playScript(seed + index, pair)) > 0);
  });
}
