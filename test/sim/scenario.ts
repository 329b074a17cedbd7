// What happens in one simulation, drawn from its seed: what is asked, what breaks, how time goes on; and at the end
// everything is made good again and must come to rest.
import type { Random } from '../../edge-evidence/random.ts';
import {
  type Action,
  admit,
  cancel,
  changeLifecycle,
  changeTrust,
  flood,
  follow,
  installPackage,
  quarantine,
  retry,
  set,
  start,
  startMany,
} from './asks.ts';
import { calmFaults } from './database.ts';
import { findUnsettled } from './rest.ts';
import {
  damage,
  dieNow,
  dieSoon,
  failCommit,
  fill,
  hold,
  operate,
  pass,
  passLong,
  reboot,
  restart,
  spoil,
  stepClock,
} from './troubles.ts';
import type { World } from './world.ts';

const weights: readonly (readonly [number, Action])[] = [
  [10, start],
  [5, startMany],
  [3, admit],
  [5, cancel],
  [2, retry],
  [2, installPackage],
  [2, changeLifecycle],
  [0.7, quarantine],
  [1.2, changeTrust],
  [1, set],
  [2, follow],
  [0.2, flood],
  [14, pass],
  [8, passLong],
  [4, dieSoon],
  [2, dieNow],
  [3, failCommit],
  [1.5, fill],
  [2, hold],
  [2, stepClock],
  [1.2, reboot],
  [2, restart],
  [3, operate],
  [4, spoil],
  [0.3, damage],
];

const weightSum = weights.reduce((sum, [weight]) => sum + weight, 0);

function drawAction(random: Random): Action {
  let left = random.fraction() * weightSum;
  for (const [weight, action] of weights) {
    left -= weight;
    if (left < 0) {
      return action;
    }
  }
  return pass;
}

export async function play(world: World): Promise<void> {
  const { random } = world;
  await world.open();
  await changeTrust(world, random);
  await installPackage(world, random);
  await installPackage(world, random);
  await world.settle();
  for (let actions = random.between(8, 22); actions > 0 && world.witness.complaints.length === 0; actions -= 1) {
    if (world.process === null && random.chance(0.6)) {
      await world.open();
    }
    await drawAction(random)(world, random);
    if (random.chance(0.6)) {
      await world.settle();
    } else {
      await world.settle(random.between(0, 3));
    }
  }
  await comeToRest(world);
}

const restStepsMax = 3_000;

/** Nothing breaks any more: everything that was begun comes to its end by itself. */
async function comeToRest(world: World): Promise<void> {
  const { database, witness, machine } = world;
  world.note('from here on nothing breaks');
  Object.assign(database.faults, calmFaults());
  world.room.refusals = 0;
  world.output.delays = 0;
  for (const command of machine.commands.values()) {
    command.undecidableUntilMs = 0;
  }
  for (let steps = 0; witness.complaints.length === 0; steps += 1) {
    if (world.process === null) {
      await world.open();
    }
    await world.settle();
    if (!(await world.advance(null))) {
      break;
    }
    if (steps === restStepsMax) {
      witness.complain('it never comes to rest');
    }
  }
  if (witness.complaints.length > 0) {
    return;
  }
  const { process } = world;
  if (process !== null && process.alarmsCount() > 0) {
    witness.complain(`at the end ${process.alarmsCount()} alarms are set, and nothing is waited for`);
  }
  // Directories whose barrier was never committed are swept at the next start.
  await world.close('detach');
  await world.open();
  witness.checkFolds();
  for (const unsettled of findUnsettled(witness)) {
    witness.complain(`at the end: ${unsettled}`);
  }
  if (world.waiting > 0 && witness.damaged.size === 0) {
    world.count('client still waiting');
  }
  await world.close('detach');
}
