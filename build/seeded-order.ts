// Loaded into tap's runner, and there alone: `--shuffle` orders the files by Math.random. From here on that draws from
// the seed in QL_TEST_SEED, so that an order in which a test fails can be had again.
import { createRandom } from '../edge-evidence/random.ts';

const { fraction } = createRandom(Number(process.env['QL_TEST_SEED']));
Math.random = fraction;
