// What really became of an attempt, as the machine and the handlers know it: what its record may truthfully say.
import type { Mortal } from './database.ts';
import type { Command } from './machine.ts';
import type { Outcome } from './rules.ts';

/** What a function of the embedder is doing. */
export type HandlerCall = { state: 'called' | 'returned' | 'threw'; readonly process: Mortal };

export type AttemptFacts = {
  readonly isHandler: boolean;
  /** Its start barrier was crossed in another boot than the present one. */
  readonly isOtherBoot: boolean;
  /** Settings that it needs were not there. */
  readonly isLacking: boolean;
  readonly command: Command | null;
  readonly call: HandlerCall | null;
};

/** Everything that may be said; empty while its command lives, or while nobody can know yet. */
export function outcomesOf({ isHandler, isOtherBoot, isLacking, command, call }: AttemptFacts): readonly Outcome[] {
  const lacking: readonly Outcome[] = isLacking ? ['failure'] : [];
  if (isHandler) {
    return [...lacking, ...outcomesOfHandler(call)];
  }
  if (command === null) {
    return ['lost'];
  }
  const lost: readonly Outcome[] = command.lostDirectory || !command.hasDirectory ? ['lost'] : [];
  // In a later boot a start that nobody took proves nothing.
  const unproven: readonly Outcome[] = isOtherBoot ? ['lost'] : lost;
  switch (command.stage) {
    case 'withdrawn':
      return ['unstarted', ...lost];
    case 'unspawned':
      return [command.behaviour?.spawnFailure === 'resources_exhausted' ? 'unstarted' : 'failure', ...unproven];
    case 'ended':
      return [command.receipt?.exitCode === 0 && command.receipt.signal === null ? 'success' : 'failure', ...lost];
    case 'dead':
      return ['lost'];
    case 'taken':
      return [];
    default:
      return [...lacking, ...unproven];
  }
}

/** One that was called ends with its process; one that never was has nothing to tell. */
function outcomesOfHandler(call: HandlerCall | null): readonly Outcome[] {
  const lost: readonly Outcome[] = call === null || call.process.isDead ? ['lost'] : [];
  if (call === null || call.state === 'called') {
    return lost;
  }
  return [call.state === 'threw' ? 'failure' : 'success', ...lost];
}

/** A handler is always asked; of a command that was told nothing, a later process cannot know it. */
export function stopsOf({ command }: AttemptFacts): readonly boolean[] {
  const isCertain = command === null || command.wasStopped || command.behaviour?.spawnFailure != null;
  return isCertain ? [true] : [false, true];
}
