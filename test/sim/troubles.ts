// How time goes on in a simulation, and what breaks: processes, the machine, its storage, its clock, its evidence.
import { type Action, cancel, pickRun, start } from './asks.ts';
import { trustedFromMs } from './world.ts';

export const pass: Action = async (world, random) => {
  await world.advance(random.chance(0.7) ? null : random.between(1, 10_000));
};

export const passLong: Action = async (world, random) => {
  for (let steps = random.between(2, 12); steps > 0; steps -= 1) {
    await world.advance(null);
  }
};

export const dieSoon: Action = ({ database: { faults } }, random) => {
  if (random.chance(0.6)) {
    faults.deathIn = random.between(0, 80);
  } else {
    faults.diesAfterCommit = true;
  }
};

export const dieNow: Action = async (world) => {
  world.process?.die('now');
  await world.settle();
};

export const failCommit: Action = (world, random) => {
  const { faults } = world.database;
  world.note('the next COMMIT fails');
  if (random.chance(0.7)) {
    faults.unknownCommit = random.pick(['happened', 'undone'] as const);
    faults.reconnectFails = random.chance(0.15);
  } else {
    faults.fullCommit = true;
  }
};

export const fill: Action = (world, random) => {
  const { faults } = world.database;
  world.note('the disk is full for a while');
  faults.full = random.pick(['statement', 'whole'] as const);
  faults.spareWrites = random.chance(0.5) ? random.between(1, 30) : 0;
  world.time.alarmOf(world).set(world.time.now().uptimeMs + random.between(0, 15_000), () => {
    faults.full = null;
  });
};

export const hold: Action = ({ database: { faults } }, random) => {
  faults[random.pick(['busyBegins', 'busyCommits'] as const)] = random.pick([1, 2, 60, 60]);
};

export const stepClock: Action = (world, random) => {
  const byMs = random.pick([1_000, 60_000, 86_400_000, 300 * 86_400_000]) * random.pick([-1, 1]);
  world.note(`the wall clock is stepped by ${byMs} ms`);
  world.count(byMs < 0 ? 'clock stepped back' : 'clock stepped on');
  world.time.stepWall(byMs);
};

export const reboot: Action = async (world, random) => {
  world.process?.die('with the machine');
  await world.settle();
  const { wallMs } = world.time.now();
  world.machine.reboot({ isVolatile: world.isVolatile });
  const wrong = random.pick([0, trustedFromMs - 86_400_000, trustedFromMs + 5_000]);
  world.time.reboot(random.chance(0.5) ? wallMs + random.between(1, 600) * 1_000 : wrong);
  world.database.faults.full = null;
  world.note('the machine is started again');
  world.count('reboot');
};

export const restart: Action = async (world, random) => {
  await world.close(random.pick(['stop', 'stop', 'detach'] as const));
};

/** A command of an operator beside no daemon. */
export const operate: Action = async (world, random) => {
  if (world.process !== null) {
    return;
  }
  await world.open(false);
  await random.pick([cancel, cancel, start])(world, random);
  await world.settle();
  await world.close('detach');
};

export const spoil: Action = async (world, random) => {
  const living = [...world.machine.commands.values()].filter(({ stage }) => stage === 'taken' || stage === 'launched');
  const stored = [...world.machine.commands.values()].filter(({ hasDirectory }) => hasDirectory);
  const kind = random.pick(['kill', 'undecidable', 'directory', 'room', 'output'] as const);
  if (kind === 'kill' && living.length > 0) {
    const { attemptId } = random.pick(living);
    world.note(`somebody kills the session of ${attemptId}`);
    world.count('session killed');
    world.attempt(() => world.machine.killSession(attemptId));
  } else if (kind === 'undecidable' && living.length > 0) {
    await dieNow(world, random);
    const command = random.pick(living);
    command.undecidableUntilMs = world.time.now().uptimeMs + random.between(0, 100_000);
    world.count('evidence undecidable');
  } else if (kind === 'directory' && stored.length > 0) {
    await dieNow(world, random);
    const { attemptId } = random.pick(stored);
    world.note(`the directory of ${attemptId} is lost`);
    world.machine.killSession(attemptId);
    Object.assign(world.machine.commands.get(attemptId)!, { hasDirectory: false, lostDirectory: true });
    world.count('evidence lost');
  } else if (kind === 'room') {
    world.room.refusals = random.between(1, 3);
  } else {
    world.output.delays = random.between(1, 5);
  }
};

/** Alters a row behind the product's back: that run is set aside, and stops no other. */
export const damage: Action = async (world, random) => {
  await world.settle();
  const runId = pickRun(world, random, (status) => status === 'running');
  if (runId === null || world.database.real.isTransaction || world.witness.damaged.size > 0) {
    return;
  }
  world.note(`run ${runId} is damaged`);
  world.witness.damaged.add(runId);
  world.count('run damaged');
  const sql = `UPDATE RunRecords SET digest = zeroblob(32) WHERE number = 0
    AND runKey = (SELECT runKey FROM RunIdentities WHERE runId = :runId)`;
  world.database.prepare(sql).run({ runId });
};
