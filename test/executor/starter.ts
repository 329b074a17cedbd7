// A process of its own that starts one attempt and is then killed by the test. Not a test itself.
//   node starter.ts RUN-DIRECTORY ATTEMPT-ID {"shell":[…],"argv":[…]}
// Prints a line when the command has taken its start, and one with its end if it lives that long.

import { readTakenState } from '../../src/executor/attempt-files.ts';
import { createExecutor } from '../../src/executor/executor.ts';
import { realAlarm, realClock } from '../../src/runtime/ports.ts';
import { until } from './until.ts';

const [runDirectory = '', attemptId = '', specification = ''] = process.argv.slice(2);
const { shell, argv } = JSON.parse(specification);
const clock = realClock();
const executor = createExecutor({
  runDirectory,
  clock,
  alarm: realAlarm(clock),
  segmentBytes: 65_536,
  outputBytesMax: 262_144,
  shell,
  onEnd: (_, end) => process.stdout.write(`${JSON.stringify(end)}\n`),
});
executor.prepare(attemptId);
executor.start({
  attemptId,
  argv,
  env: { PATH: '/usr/bin:/bin', QL_ATTEMPT_ID: attemptId },
  cwd: '/',
  nice: null,
  limits: null,
  user: null,
});
await until(() => readTakenState(`${runDirectory}/attempts/${attemptId}`) === 'taken');
process.stdout.write('taken\n');
if (process.env['DETACH'] === 'yes') {
  executor.close();
}
