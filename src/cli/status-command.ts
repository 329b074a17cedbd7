// `status`: who holds the data directory, what runs, what waits and for what, the space taken, the settings in force.
import { statfsSync } from 'node:fs';
import path from 'node:path';
import { describeSettings, settingNames } from '../runtime/settings.ts';
import { type Cell, formatPairs, formatTable } from './columns.ts';
import type { Context } from './command.ts';
import { measureFiles } from './directory-size.ts';
import { exitCodes } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { shortRunId } from './run-id.ts';
import { type ActiveAttempt, collectStatus, type StatusFacts, type WaitingStep } from './status-facts.ts';
import { formatBytes, formatCount, formatCountdown, formatElapsed, formatTime } from './times.ts';

type Space = {
  readonly databaseBytes: number;
  readonly packagesBytes: number;
  readonly outputBytes: number;
  readonly freeBytes: number | null;
};

/** Steps that wait, as text; a program gets all that were read. */
const waitingShownMax = 20;

export async function statusCommand(context: Context): Promise<number> {
  const { output } = context;
  const facts = await collectStatus(context);
  const space = measureSpace(context.data);
  if (output.isJson) {
    output.printJson(toDocument(context, facts, space));
  } else {
    output.print(...toText(context, facts, space));
  }
  return exitCodes.done;
}

function measureSpace(data: string): Space {
  const databaseFiles = ['qinglong.db', 'qinglong.db-journal', 'qinglong.db-wal', 'qinglong.db-shm'];
  return {
    databaseBytes: databaseFiles.reduce((sum, name) => sum + measureFiles(path.join(data, name)), 0),
    packagesBytes: measureFiles(path.join(data, 'packages')),
    outputBytes: measureFiles(path.join(data, 'artifacts')),
    freeBytes: readFree(data),
  };
}

function readFree(data: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(data);
    return bavail * bsize;
  } catch {
    return null;
  }
}

function toDocument({ data }: Context, facts: StatusFacts, space: Space): object {
  const { holder, answer, settings, active, waiting } = facts;
  return {
    schema: 'qinglong/status@v1',
    data,
    profile: facts.profile,
    durability: facts.durability,
    isHeld: facts.isHeld,
    holder:
      holder === null
        ? null
        : {
            ...holder,
            version: answer?.version ?? null,
            phase: answer?.phase ?? null,
            heldBack: answer?.heldBack ?? null,
          },
    runs: { running: facts.runningCount, setAside: facts.setAsideCount },
    attempts: active.map(({ look, ...attempt }) => ({ ...attempt, ...look })),
    waiting,
    hasMoreWaiting: facts.hasMoreWaiting,
    setAside: facts.setAside,
    damaged: facts.damaged,
    space: { ...space, packagesQuotaBytes: settings.packagesQuotaBytes, outputQuotaBytes: settings.outputQuotaBytes },
    settings: describeSettings(settings),
    settingsError: facts.settingsError,
  };
}

function toText(context: Context, facts: StatusFacts, space: Space): readonly string[] {
  const { output, data } = context;
  const { paint } = output;
  const pairs: readonly (readonly [string, Cell | null])[] = [
    ['holder', holderCell(context, facts)],
    ['directory', facts.profile === null ? data : `${data} (${facts.profile}, ${facts.durability})`],
    ['runs', `${facts.runningCount} running`],
    ['set aside', asideCell(facts)],
    ['damaged', damagedCell(facts)],
    ['commands', `${facts.active.length} running, of ${facts.settings.concurrency} at most`],
    ['held back', heldBackCell(facts)],
    ['space', spaceText(facts, space)],
    ['settings', settingsCell(facts)],
  ];
  return [...formatPairs(pairs, paint), ...activeLines(context, facts), ...waitingLines(context, facts)];
}

function holderCell({ clock, self }: Context, { isHeld, holder, answer }: StatusFacts): Cell {
  if (!isHeld) {
    return { text: `nobody: runs move only while somebody holds the directory: ${self} serve`, tone: 'yellow' };
  }
  if (holder === null) {
    return { text: 'a process that does not say who it is', tone: 'yellow' };
  }
  const { pid, command, startedAtMs, socket } = holder;
  const age = formatElapsed(clock.observe().wallMs - startedAtMs);
  const who = `process ${pid} (${command}) since ${formatTime(startedAtMs)}, for ${age}`;
  if (socket === null) {
    return `${who}, for one short piece of work`;
  }
  if (answer === null) {
    return { text: `${who}; it does not answer at ${socket}`, tone: 'red' };
  }
  const phases = { opening: ', taking over what runs', open: '', closing: ', ending' };
  return `${who}${phases[answer.phase]}; version ${answer.version}, reached at ${socket}`;
}

function asideCell({ setAside, setAsideCount }: StatusFacts): Cell | null {
  const [first] = setAside;
  if (first === undefined) {
    return null;
  }
  const more = setAsideCount === 1 ? '' : ` and ${setAsideCount - 1} more`;
  return { text: `${first.runId} (${first.summary})${more}; look at it with \`verify\``, tone: 'red' };
}

function damagedCell({ damaged }: StatusFacts): Cell | null {
  const texts = [...new Set(damaged.map(({ why }) => why))];
  return texts.length === 0 ? null : { text: `${texts.join('; ')}; look at it with \`verify\``, tone: 'red' };
}

function heldBackCell({ answer }: StatusFacts): Cell | null {
  const why = answer?.heldBack ?? null;
  return why === null ? null : { text: neutralize(`nothing is started for now, and tried again: ${why}`), tone: 'red' };
}

function spaceText({ settings }: StatusFacts, space: Space): string {
  const { packagesQuotaBytes, outputQuotaBytes } = settings;
  return [
    `database ${formatBytes(space.databaseBytes)}`,
    `packages ${formatBytes(space.packagesBytes)} of ${formatBytes(packagesQuotaBytes)}`,
    `kept output ${formatBytes(space.outputBytes)} of ${formatBytes(outputQuotaBytes)}`,
    ...(space.freeBytes === null ? [] : [`${formatBytes(space.freeBytes)} free`]),
  ].join(', ');
}

function settingsCell({ settings, settingsError, answer }: StatusFacts): Cell {
  if (settingsError !== null) {
    return { text: `cannot be read, so nothing can hold the directory: ${settingsError}`, tone: 'red' };
  }
  const values = describeSettings(settings);
  const shown = settingNames.filter((name) => values[name] !== null);
  const text = shown.map((name) => `${name} ${Array.isArray(values[name]) ? values[name].join(' ') : values[name]}`);
  return `${text.join(', ')}${answer === null ? ' (as a holder that is started here would have them)' : ''}`;
}

function runCell({ runId, packageName, workflowId }: { runId: string; packageName: string; workflowId: string }) {
  return [shortRunId(runId), `${packageName}/${workflowId}`];
}

function activeLines({ output, clock, self }: Context, { active, answer }: StatusFacts): readonly string[] {
  if (active.length === 0) {
    return [];
  }
  const nowMs = clock.observe().wallMs;
  const rows = active.map((attempt) => [
    ...runCell(attempt),
    attempt.stepKey,
    `${attempt.ordinal}`,
    stateCell(attempt, answer !== null),
    elapsedText(attempt, nowMs),
    attempt.look.pid === null ? '' : `${attempt.look.pid}`,
    attempt.look.why ?? '',
  ]);
  const [undecided] = active.filter(({ look }) => look.state === 'undecidable');
  const hint = `what cannot be decided is left as it is; see ${self} doctor`;
  return [
    '',
    ...formatTable(['RUNNING', 'WORKFLOW', 'STEP', 'ATTEMPT', 'STATE', 'FOR', 'PID', ''], rows, output.paint),
    ...(undecided === undefined ? [] : [output.paint(hint, 'dim')]),
  ];
}

function stateCell({ look, isStopping }: ActiveAttempt, isWatched: boolean): Cell {
  const unwatched = isWatched ? '' : ', and nobody looks after it';
  switch (look.state) {
    case 'about-to-start':
      return isWatched ? 'starting' : 'started by nobody';
    case 'running':
    case 'unknown':
      return isStopping ? { text: `stopping${unwatched}`, tone: 'yellow' } : `running${unwatched}`;
    case 'over':
      return isWatched ? 'ending' : 'ended, to be recorded by the next holder';
    case 'gone':
      return { text: isWatched ? 'ending' : 'gone, to be recorded by the next holder', tone: 'yellow' };
    case 'undecidable':
      return { text: 'cannot be decided', tone: 'red' };
  }
}

function elapsedText({ elapsedMs, startedAtMs }: ActiveAttempt, nowMs: number): string {
  const elapsed = elapsedMs ?? (startedAtMs === null ? null : nowMs - startedAtMs);
  return elapsed === null ? '' : formatElapsed(elapsed);
}

function waitingLines({ output, clock, self }: Context, facts: StatusFacts): readonly string[] {
  const { waiting, hasMoreWaiting } = facts;
  if (waiting.length === 0) {
    return [];
  }
  const shown = waiting.slice(0, waitingShownMax);
  const rows = shown.map((step) => [...runCell(step), step.stepKey, describeWaiting(step, facts, { clock })]);
  const leftCount = waiting.length - shown.length;
  const count = `${formatCount(leftCount, 'step')}${hasMoreWaiting ? ' or more' : ''}`;
  const more = `${count} behind these; ${self} status --json`;
  return [
    '',
    ...formatTable(['WAITING', 'WORKFLOW', 'STEP', 'FOR'], rows, output.paint),
    ...(leftCount === 0 && !hasMoreWaiting ? [] : [output.paint(more, 'dim')]),
  ];
}

/** `a free slot, of 1`. */
export function describeWaiting(
  { waitsFor, dueInMs, workflowConcurrency }: WaitingStep,
  { settings }: Pick<StatusFacts, 'settings'>,
  { clock }: Pick<Context, 'clock'>,
): string {
  switch (waitsFor) {
    case 'due': {
      const leftMs = dueInMs ?? 0;
      return `its next try in ${formatCountdown(leftMs)}, at ${formatTime(clock.observe().wallMs + leftMs)}`;
    }
    case 'workflow':
      return `its workflow, of which ${workflowConcurrency} may run at once`;
    case 'held-back':
      return 'commands to be started again (held back)';
    case 'slot':
      return `a free slot, of ${settings.concurrency}`;
    case 'holder':
      return 'somebody who holds the directory';
    case 'nothing':
      return 'nothing: it starts now';
  }
}
