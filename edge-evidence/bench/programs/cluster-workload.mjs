// The work that every library on PostgreSQL is given, and how it is timed. A library is told as a subject:
//   start(length)   starts one chain of so many steps; resolves when it is durable
//   work()          begins to carry chains on
//   isDrained()     whether the end of every chain is durable; asked once `ended` was called for all of them
//   close()
// Nobody works yet while admissions are timed, and what they left is the first warm-up.
import { setTimeout as sleep } from 'node:timers/promises';
import measured from './measured.cjs';

const { options, answer, nowMs } = measured;
const admissions = 200;
const warmUp = { admissions: 20, chains: 32 };

let endedCount = 0;
let awaited = { count: Number.POSITIVE_INFINITY, resolve: () => {} };

/** To be called by a subject when the last step of a chain has been carried out. */
export function ended() {
  endedCount += 1;
  if (endedCount >= awaited.count) {
    awaited.resolve();
  }
}

/** So many calls, at most `atOnce` of them under way. */
export async function together(count, atOnce, work) {
  let begun = 0;
  const lane = async () => {
    while (begun < count) {
      begun += 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, lane));
}

async function whenDrained(subject, count, begin) {
  const all = Promise.withResolvers();
  awaited = { count: endedCount + count, resolve: all.resolve };
  const beganMs = nowMs();
  await begin();
  await all.promise;
  while (!(await subject.isDrained())) {
    await sleep(2);
  }
  return nowMs() - beganMs;
}

const drain = (subject, { count, length }) =>
  whenDrained(subject, count, () => together(count, options.atOnce, () => subject.start(length)));

/** Times everything and answers. */
export async function measureSubject(subject) {
  const admissionMs = [];
  const before = subject.roundTrips?.() ?? null;
  for (let count = 0; count < warmUp.admissions + admissions; count += 1) {
    const beganMs = nowMs();
    await subject.start(1);
    admissionMs.push(nowMs() - beganMs);
  }
  const after = subject.roundTrips?.() ?? null;
  await whenDrained(subject, warmUp.admissions + admissions, () => subject.work());
  await drain(subject, { count: warmUp.chains, length: options.length });
  const singlesMs = await drain(subject, { count: options.singles, length: 1 });
  const beforeChains = subject.roundTrips?.() ?? null;
  const chainsMs = await drain(subject, { count: options.chains, length: options.length });
  const steps = options.chains * options.length;
  answer({
    admissionMs: admissionMs.slice(warmUp.admissions),
    singlesPerSecond: (options.singles / singlesMs) * 1000,
    stepsPerSecond: (steps / chainsMs) * 1000,
    tripsPerAdmission: before === null ? null : (after - before) / admissionMs.length,
    tripsPerStep: beforeChains === null ? null : (subject.roundTrips() - beforeChains) / steps,
  });
  await subject.close();
}
