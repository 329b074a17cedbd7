// What the measured programs share. They are plain CommonJS, so that nothing but what is measured takes memory in them:
// options come as one JSON argument, the answer is one JSON line on stdout.
const { readFileSync } = require('node:fs');

const options = JSON.parse(process.argv[2] ?? '{}');

/** Bytes that this process has caused to be written to storage. */
function writtenBytes() {
  return Number(/^write_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'latin1'))[1]);
}

function statusKib(field) {
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/status', 'latin1'))[1]);
}

const nowMs = () => Number(process.hrtime.bigint()) / 1e6;

/** Time and bytes of some work. */
async function measure(work) {
  const bytes = writtenBytes();
  const beganMs = nowMs();
  await work();
  return { ms: nowMs() - beganMs, bytes: writtenBytes() - bytes };
}

/** The answer, with this process's memory. */
function answer(document) {
  const memory = { residentKib: statusKib('VmRSS'), peakKib: statusKib('VmHWM') };
  process.stdout.write(`${JSON.stringify({ ...document, ...memory })}\n`);
}

/** The same durability for everybody: what the product's own modes are made of. */
const durabilities = {
  'delete-extra': ['journal_mode = DELETE', 'synchronous = EXTRA'],
  'delete-full': ['journal_mode = DELETE', 'synchronous = FULL'],
  'wal-full': ['journal_mode = WAL', 'synchronous = FULL'],
};

module.exports = { options, nowMs, measure, answer, durabilities };
