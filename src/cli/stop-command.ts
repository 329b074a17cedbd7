// `stop`: ends the daemon that holds the directory, as a SIGTERM to it does, and answers when the directory is free.
// Without a daemon there is nothing to do, and that is said and no failure.
import { EdgeError, isEdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { defaultSettings, type OnStop } from '../runtime/settings.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, type Failure, refusal } from './failure.ts';
import { isForbidden, pause, readSettings } from './session.ts';
import type { Holder } from './storage.ts';
import { formatElapsed } from './times.ts';

/** Between two looks at the lock. */
const lookAgainMs = 50;

/** A daemon takes its socket away first and its lock last. What runs may take longer to stop: a signal does no harm. */
const endingMsMax = 500;

export async function stopCommand(context: Context, input: Input): Promise<number> {
  const { storage, data, output, clock } = context;
  // Throws where there is no directory at all: a mistyped --data must not look like a daemon that was stopped.
  const holder = (await storage.isHeld(data)) ? await findHolder(context) : null;
  if (holder === null) {
    return tellNothing(context);
  }
  const beganMs = clock.observe().uptimeMs;
  const stopping = await ask(context, holder, (input.options['on-stop'] as OnStop | undefined) ?? null);
  if (stopping.kind === 'not-allowed') {
    return output.fail(refuseForeground(holder));
  }
  await waitUntilFree(context, holder, stopping.stopLimitMs + limits.turnRetryMsMax);
  const tookMs = Math.round(clock.observe().uptimeMs - beganMs);
  if (output.isJson) {
    output.printJson({ outcome: 'stopped', pid: holder.pid, onStop: stopping.onStop, tookMs });
  } else {
    const left =
      stopping.onStop === 'detach'
        ? '; commands that run go on, and whoever holds the directory next takes them over'
        : '';
    output.print(`stopped process ${holder.pid} (${holder.command}) in ${formatElapsed(tookMs)}${left}`);
  }
  return exitCodes.done;
}

function tellNothing({ output, data }: Context): number {
  if (output.isJson) {
    output.printJson({ outcome: 'not-running' });
  } else {
    output.print(`nobody holds ${data}: there is no daemon to stop`);
  }
  return exitCodes.done;
}

/** Null where a short command had the directory and is gone. Throws `busy` for one that says nothing or does not go. */
async function findHolder(context: Context): Promise<Holder | null> {
  const { storage, data, clock } = context;
  const untilMs = clock.observe().uptimeMs + limits.turnRetryMsMax;
  for (;;) {
    const holder = await storage.readHolder(data);
    if (holder !== null && holder.socket !== null) {
      return holder;
    }
    if (!(await storage.isHeld(data))) {
      return null;
    }
    if (clock.observe().uptimeMs >= untilMs) {
      const who =
        holder === null ? 'a process that does not say who it is' : `process ${holder.pid} (${holder.command})`;
      throw new EdgeError('busy', `${data} is held by ${who}`, { hint: 'it cannot be asked: try again, or end it' });
    }
    await pause(context, lookAgainMs);
  }
}

async function ask(context: Context, holder: Holder, onStop: OnStop | null) {
  const { askToStop } = await import('../http/holder-client.ts');
  try {
    return await askToStop(holder.socket!, onStop);
  } catch (error) {
    const isGone = isEdgeError(error) && (error.code === 'unavailable' || error.code === 'unknown-outcome');
    if (!isGone || isForbidden(error)) {
      throw error;
    }
    // How long it may take is a guess, and what it does with what runs; settings that it would not start with now are
    // in nobody's way here.
    const settings = await readSettings(context).catch(() => defaultSettings('edge'));
    const stopping = {
      kind: 'stopping',
      onStop: onStop ?? settings.onStop,
      stopLimitMs: settings.stopLimitMs,
    } as const;
    // It may be ending already, for whoever asked before: the lock tells.
    if (!isUnreachable(error) || !(await staysHeld(context, holder))) {
      return stopping;
    }
    if (holder.command !== 'serve') {
      return { kind: 'not-allowed' } as const;
    }
    if (!(await context.storage.isHeldByProcess(context.data, holder.pid))) {
      return stopping;
    }
    endBySignal(context, holder, onStop);
    return { ...stopping, onStop: null };
  }
}

/** Whether nobody listens at the socket, or it is not there at all: not that it answers late. */
function isUnreachable(error: unknown): boolean {
  const cause = isEdgeError(error) ? error.cause : null;
  const code = cause instanceof Error && 'code' in cause ? `${cause.code}` : '';
  return ['ENOENT', 'ENOTDIR', 'ECONNREFUSED'].includes(code);
}

/** For as long as a daemon that is ending anyway is left alone. */
async function staysHeld(context: Context, holder: Holder): Promise<boolean> {
  const untilMs = context.clock.observe().uptimeMs + endingMsMax;
  while (await isHeldBy(context, holder)) {
    if (context.clock.observe().uptimeMs >= untilMs) {
      return true;
    }
    await pause(context, lookAgainMs);
  }
  return false;
}

/** Only for a process that is known to hold the lock: pids are given again. */
function endBySignal({ output }: Context, { pid, socket }: Holder, onStop: OnStop | null): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch (cause) {
    const message = `process ${pid} cannot be reached at ${socket}, and cannot be ended from here`;
    throw new EdgeError('unavailable', message, { cause, hint: 'run this as the user that runs the daemon' });
  }
  const unused = onStop === null ? '' : '; --on-stop cannot be handed over so: its own setting decides';
  output.note(`process ${pid} cannot be reached at ${socket}: it was sent a SIGTERM instead${unused}`);
}

async function waitUntilFree(context: Context, holder: Holder, patienceMs: number): Promise<void> {
  const { clock } = context;
  const untilMs = clock.observe().uptimeMs + patienceMs;
  while (await isHeldBy(context, holder)) {
    if (clock.observe().uptimeMs >= untilMs) {
      throw await explainStay(context, holder, patienceMs);
    }
    await pause(context, lookAgainMs);
  }
}

async function explainStay(
  { storage, data }: Context,
  { pid, command }: Holder,
  patienceMs: number,
): Promise<EdgeError> {
  const after = `after ${formatElapsed(patienceMs)}`;
  if (await storage.isHeldByProcess(data, pid)) {
    const left = 'commands that run go on, and the next `serve` takes them over';
    const hint = `look at its log; if it hangs, end it with kill -9 ${pid}: ${left}`;
    return new EdgeError('unavailable', `process ${pid} (${command}) still holds ${data} ${after}`, { hint });
  }
  const message = `${data} is still held ${after}, and it cannot be told whether by process ${pid}, as it says`;
  return new EdgeError('unavailable', message, { hint: `end the process that has ${data}/lock.db open` });
}

/** Whoever comes next is another one. */
async function isHeldBy({ storage, data }: Context, { pid, startedAtMs }: Holder): Promise<boolean> {
  const next = await storage.readHolder(data);
  const isOther = next !== null && (next.pid !== pid || next.startedAtMs !== startedAtMs);
  return !isOther && (await storage.isHeld(data));
}

function refuseForeground({ pid, command }: Holder): Failure {
  const message = `process ${pid} (${command}) holds the directory for a run in the foreground, and ends with it`;
  const hint = command === 'library' ? 'end the program that it is a part of' : `to cancel that run: kill -INT ${pid}`;
  return refusal('not-allowed', message, hint);
}
