// The witness of one simulation: sees every commit at the moment when it is durable, every start and every answer, and
// complains of what must not be. Reads the database by itself; the runtime's memory is nothing to it.

import { arrangeRows, compareRecords, foldHistory } from '../../edge-evidence/fold.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { Now } from '../../src/core/ports.ts';
import { createReads, type SqliteReads } from '../../src/store/sqlite/reads.ts';
import type { SimulatedDatabase } from './database.ts';
import type { Command, Machine } from './machine.ts';
import { type ModelAttempt, type ModelStep, RunModel } from './model.ts';
import { isLive, listStartable } from './rest.ts';
import type { WorkflowRule } from './rules.ts';
import type { SimulatedTime } from './time.ts';
import { type AttemptFacts, type HandlerCall, outcomesOf, stopsOf } from './truth.ts';

export type WitnessWorld = {
  readonly time: SimulatedTime;
  readonly database: () => SimulatedDatabase;
  readonly machine: () => Machine;
  readonly trustedFromMs: number;
  readonly concurrencyMax: number;
  /** The workflow of a plan, as its package was written. */
  readonly findRule: (lockDigest: string, workflowId: string) => WorkflowRule | null;
  readonly count: (what: string) => void;
  readonly note: (line: string) => void;
};

type Place = { readonly model: RunModel; readonly step: ModelStep; readonly attempt: ModelAttempt };

const runsSql = `SELECT i.runId, r.version FROM RunIdentities AS i
  JOIN RunRecords AS r ON r.recordKey = i.runKey << 8`;
const forbiddenSql = `SELECT count(*) AS found FROM QingLong3PluginPackageWorkflowAdmissions AS a
  JOIN RunIdentities AS i ON i.runKey = a.runKey
  WHERE i.runId = :runId AND (
    EXISTS (SELECT 1 FROM PackageQuarantines AS q WHERE q.installationId = a.installationId)
    OR EXISTS (
      SELECT 1 FROM PackageInstallations AS n JOIN Publishers AS p ON p.keyId = n.publisherKeyId
      WHERE n.installationId = a.installationId AND p.revokedAtMs IS NOT NULL))`;
const asideSql = 'SELECT runId FROM SetAside';

export class Witness {
  readonly world: WitnessWorld;
  #beganAt: Now;
  #reads: SqliteReads | null = null;
  readonly models = new Map<string, RunModel>();
  readonly #planDigests = new Map<string, string>();
  readonly #histories = new Map<string, RunEvent[]>();
  readonly complaints: string[] = [];
  readonly #handlers = new Map<
    string,
    { readonly runId: string; readonly stepKey: string; readonly call: HandlerCall }
  >();
  readonly #lacking = new Set<string>();
  /** Runs of which somebody was told that they are cancelled. */
  readonly cancelAnswered = new Set<string>();
  /** Runs whose rows were altered by hand. */
  readonly damaged = new Set<string>();
  readonly #stale = new Set<string>();
  /** As it was asked since the last commit. */
  readonly #forbidden = new Map<string, boolean>();

  constructor(world: WitnessWorld) {
    this.world = world;
    this.#beganAt = world.time.now();
  }

  complain(what: string): void {
    this.world.note(`COMPLAINT: ${what}`);
    this.complaints.push(what);
  }

  #read(): SqliteReads {
    this.#reads ??= createReads(this.world.database().real);
    return this.#reads;
  }

  /** A commit is durable: whatever it added is followed. */
  committed(): void {
    this.#forbidden.clear();
    const claimed: Place[] = [];
    const changed: RunModel[] = [];
    for (const row of this.world.database().prepare(runsSql).all() as { runId: string; version: number }[]) {
      if (!this.damaged.has(row.runId) && row.version !== (this.models.get(row.runId)?.sequence ?? 0)) {
        const model = this.#follow(row.runId, claimed);
        if (model !== null) {
          changed.push(model);
        }
      }
    }
    for (const model of changed) {
      this.#stale.add(model.runId);
      // On a full disk what follows may be owed; who owes it for too long is found at rest.
      const isOwed = this.world.database().faults.full !== null;
      for (const missing of isOwed ? [] : model.findUnfinished()) {
        this.complain(`after a commit: ${missing}`);
      }
      if (model.status !== 'running') {
        this.checkFold(model.runId);
      }
    }
    this.#checkOrder(claimed);
  }

  /** The second fold of what changed since the last time gives the records as they are. */
  checkFolds(): void {
    for (const runId of this.#stale) {
      this.checkFold(runId);
    }
    this.#stale.clear();
  }

  checkFold(runId: string): void {
    if (this.damaged.has(runId)) {
      return;
    }
    try {
      const rows = this.#read().wholeRun({ runId });
      const folded = foldHistory(this.#histories.get(runId) ?? []);
      const differences = rows === null ? ['it is gone'] : compareRecords(folded, arrangeRows(rows));
      if (differences.length > 0) {
        this.complain(`run ${runId} is not what its history folds to: ${differences.join(', ')}`);
      }
    } catch (error) {
      this.complain(`run ${runId} cannot be folded: ${error}`);
    }
  }

  #follow(runId: string, claimed: Place[]): RunModel | null {
    let model = this.models.get(runId) ?? null;
    const history = this.#histories.get(runId) ?? [];
    this.#histories.set(runId, history);
    const after = model?.sequence ?? 0;
    const around = {
      now: { ...this.world.time.now(), wallMs: this.world.time.latestWallMs() },
      trustedFromMs: this.world.trustedFromMs,
      outcomesOf: (attemptId: string) => outcomesOf(this.#factsOf(attemptId)),
      stopsOf: (attemptId: string) => stopsOf(this.#factsOf(attemptId)),
      isForbidden: this.isForbidden(runId),
    };
    for (let last = after; ; last = history.length) {
      const page = this.#read().events({ runId, after: last, limit: 64 });
      for (const event of page) {
        history.push(event);
        model ??= this.#admit(event);
        if (model === null) {
          return null;
        }
        this.world.note(`  ${runId.slice(-4)} ${event.sequence} ${event.type} ${this.#nameOf(model, event)}`);
        for (const complaint of model.observe(event, around)) {
          this.complain(complaint);
        }
        this.#countEvent(event);
        const place = event.type === 'attempt.claimed' ? this.placeOf(event.attemptId ?? '') : null;
        if (place !== null) {
          claimed.push(place);
        }
      }
      if (page.length < 64) {
        return model;
      }
    }
  }

  #nameOf(model: RunModel, event: RunEvent): string {
    const reason = 'reason' in event.payload ? ` ${event.payload.reason}` : '';
    const ended = 'stepStatus' in event.payload ? ` → ${event.payload.stepStatus}` : '';
    return `${model.stepOf(event.stepRunId)?.rule.key ?? ''} ${event.attemptId ?? ''}${reason}${ended}`;
  }

  #admit(event: RunEvent): RunModel | null {
    const { runId } = event;
    if (event.type !== 'workflow.admitted') {
      this.complain(`run ${runId} begins with ${event.type}`);
      return null;
    }
    const plan = this.#read().plan({ runId });
    const rule = plan === null ? null : this.world.findRule(plan.target.lockDigest, event.payload.workflowId);
    if (plan === null || rule === null) {
      this.complain(`run ${runId} is of no package that was installed`);
      return null;
    }
    const model = new RunModel(rule, event);
    this.models.set(runId, model);
    this.#planDigests.set(runId, event.payload.planDigest);
    return model;
  }

  #countEvent(event: RunEvent): void {
    const { count } = this.world;
    count(event.type);
    if (event.type === 'workflow.cancel_requested') {
      count(`cancel: ${event.payload.reason}`);
    }
    if ('stepStatus' in event.payload && event.payload.stepStatus === 'ready') {
      count(event.type === 'attempt.lost' ? 'start taken back' : 'retry');
    }
    if (event.type === 'step.readied' && event.payload.due !== null) {
      count('retry after a loss');
    }
  }

  began(): void {
    this.#beganAt = this.world.time.now();
  }

  /** First in, first out: nothing starts while an older run's step could have started and did not. */
  #checkOrder(claimed: readonly Place[]): void {
    for (const { model, step } of claimed) {
      const key = this.#orderOf(model, step);
      const older = listStartable(this, this.#beganAt).find((other) => this.#orderOf(other.model, other.step) < key);
      if (older !== undefined) {
        const [one, other] = [older, { model, step }].map((it) => `${it.model.runId}/${it.step.rule.key}`);
        this.complain(`${other} was started before ${one}, which is older and could start`);
      }
    }
  }

  #orderOf({ runId, admittedAtMs }: RunModel, { rule }: ModelStep): string {
    return `${`${admittedAtMs}`.padStart(16, '0')} ${this.#planDigests.get(runId)} ${rule.key}`;
  }

  isForbidden(runId: string): boolean {
    const known = this.#forbidden.get(runId);
    if (known !== undefined) {
      return known;
    }
    const row = this.world.database().prepare(forbiddenSql).get({ runId }) as { found: number };
    this.#forbidden.set(runId, row.found > 0);
    return row.found > 0;
  }

  aside(): ReadonlySet<string> {
    const rows = this.world.database().prepare(asideSql).all() as { runId: string }[];
    return new Set(rows.map(({ runId }) => runId));
  }

  placeOf(attemptId: string): Place | null {
    for (const model of this.models.values()) {
      const attempt = model.attempts.get(attemptId);
      const step = attempt === undefined ? undefined : model.steps.get(attempt.stepKey);
      if (attempt !== undefined && step !== undefined) {
        return { model, step, attempt };
      }
    }
    return null;
  }

  /** An attempt is about to be begun; `busy` hold a slot already. */
  starting(attemptId: string, busy: readonly string[]): void {
    const place = this.placeOf(attemptId);
    if (place !== null && this.damaged.has(place.model.runId)) {
      this.complain(`run ${place.model.runId} was damaged, and attempt ${attemptId} of it is begun`);
      return;
    }
    if (place === null || place.attempt.status !== 'starting' || this.world.database().real.isTransaction) {
      this.complain(`attempt ${attemptId} is begun and its start barrier is not durable`);
      return;
    }
    const { model } = place;
    if (this.cancelAnswered.has(model.runId)) {
      this.complain(`attempt ${attemptId} is begun after its run's cancel was answered`);
    }
    if ((this.world.machine().commands.get(attemptId)?.launches ?? 0) > 0 || this.#handlers.has(attemptId)) {
      this.complain(`attempt ${attemptId} is begun a second time`);
    }
    const others = busy.map((id) => this.placeOf(id)).filter((other) => other !== null && isLive(other.attempt));
    if (others.length >= this.world.concurrencyMax) {
      this.complain(`attempt ${attemptId} is begun beside ${others.length}, and ${this.world.concurrencyMax} may run`);
    }
    const own = others.filter(
      (other) => other?.model.packageName === model.packageName && other.model.rule.id === model.rule.id,
    );
    if (own.length >= (model.rule.concurrency ?? Number.MAX_SAFE_INTEGER)) {
      this.complain(
        `attempt ${attemptId} is begun beside ${own.length} of its workflow, the limit is ${model.rule.concurrency}`,
      );
    }
  }

  handlerCalled(
    attemptId: string,
    about: { readonly runId: string; readonly stepKey: string; readonly call: HandlerCall },
  ): void {
    this.#handlers.set(attemptId, about);
    this.world.count('handler called');
    this.#checkCommand(attemptId, about);
  }

  /** Its settings were not there: nothing ran, and that is the attempt's own failure. */
  noteLacking(attemptId: string): void {
    this.#lacking.add(attemptId);
    this.world.count('setting missing');
  }

  /** A command has begun to run on the machine. */
  taken(command: Command): void {
    this.world.count('command ran');
    this.#checkCommand(command.attemptId, command);
    if (command.takes > 1) {
      this.complain(`the command of ${command.attemptId} runs a second time`);
    }
  }

  #checkCommand(attemptId: string, { runId, stepKey }: { readonly runId: string; readonly stepKey: string }): void {
    const model = this.models.get(runId);
    const step = model?.steps.get(stepKey);
    const attempt = model?.attempts.get(attemptId);
    if (model === undefined || step === undefined || attempt === undefined || !isLive(attempt)) {
      if (!this.damaged.has(runId)) {
        this.complain(`the command of ${attemptId} runs, and its record is ${attempt?.status ?? 'missing'}`);
      }
      return;
    }
    if (this.cancelAnswered.has(runId)) {
      this.complain(`the command of ${attemptId} begins after its run's cancel was answered`);
    }
    for (const need of step.rule.needs) {
      if (model.steps.get(need)?.status !== 'succeeded') {
        this.complain(
          `the command of ${attemptId} begins, and ${need}, which it needs, is ${model.steps.get(need)?.status}`,
        );
      }
    }
    const others = [...this.world.machine().commands.values()].filter(
      (it) => it.runId === runId && it.stepKey === stepKey,
    );
    if (others.some((other) => other.stage === 'taken' && other.attemptId !== attemptId)) {
      this.complain(`two commands of step ${stepKey} of run ${runId} run at once`);
    }
    const handled = [...this.#handlers.values()].filter((it) => it.runId === runId && it.stepKey === stepKey).length;
    const ran = others.filter(({ takes }) => takes > 0).length + handled;
    if (ran > step.rule.retry.limit + 1) {
      this.complain(
        `step ${stepKey} of run ${runId} has had ${ran} commands, with a retry limit of ${step.rule.retry.limit}`,
      );
    }
  }

  #factsOf(attemptId: string): AttemptFacts {
    const attempt = this.placeOf(attemptId)?.attempt ?? null;
    return {
      isHandler: attempt?.executorType === 'handler',
      isOtherBoot: attempt !== null && attempt.bootId !== this.world.time.now().bootId,
      isLacking: this.#lacking.has(attemptId),
      command: this.world.machine().commands.get(attemptId) ?? null,
      call: this.#handlers.get(attemptId)?.call ?? null,
    };
  }
}
