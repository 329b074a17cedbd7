// One simulated world: a machine, its database, and one runtime process after another. Owns how time and turns go on,
// what is asked of the runtime and what its answers must be; what happens when is drawn by scenario.ts.
import { createRandom, type Random } from '../../edge-evidence/random.ts';
import type { Receipt } from '../../src/core/admission.ts';
import { isEdgeError } from '../../src/core/errors.ts';
import type { StartOutcome } from '../../src/protocol/admit.ts';
import type { CancelOutcome } from '../../src/protocol/cancel.ts';
import { calmFaults, Death, type SimulatedDatabase, simulateDatabase } from './database.ts';
import type { Loop } from './loop.ts';
import { Machine } from './machine.ts';
import type { RunModel } from './model.ts';
import type { SimulatedPackage } from './packages.ts';
import { SimulatedProcess } from './process.ts';
import { findNeglected } from './rest.ts';
import { type SimulatedTime, simulateIds, simulateTime } from './time.ts';
import { Witness } from './witness.ts';

export const trustedFromMs = Date.UTC(2026, 10, 1);

/** One request for a run. `name` is that of an idempotency key or a plan; null for a start without one. */
export type StartAsked = {
  readonly name: string | null;
  /** Whether a run that has this name is the one that was asked for. */
  readonly isMeant: (model: RunModel) => boolean;
};

// After a fault the runtime may hold back for as long as its longest back-off, or offer again what it owes.
const troubleMs = 130_000;
const stepsMax = 5_000;
const foldShare = 0.05;

export class World {
  readonly random: Random;
  readonly loop: Loop;
  readonly time: SimulatedTime;
  readonly database: SimulatedDatabase;
  readonly machine: Machine;
  readonly witness: Witness;
  readonly packages = new Map<string, SimulatedPackage>();
  readonly counts = new Map<string, number>();
  readonly trace: string[] = [];
  readonly room = { refusals: 0 };
  readonly output = { delays: 0 };
  readonly concurrencyMax: number;
  readonly isVolatile: boolean;
  process: SimulatedProcess | null = null;
  /** Receipts that clients were given, by idempotency key or plan; null of names that led to none so far. */
  readonly known = new Map<string, string | null>();
  readonly #looks: Random;
  readonly #ids = simulateIds();
  readonly #runDirectory: string;
  /** Clients that wait for an answer. */
  #waiting = 0;
  #troubleUntilMs = 0;

  constructor(seed: number, loop: Loop, runDirectory: string) {
    this.random = createRandom(seed);
    this.#looks = this.random.fork('looks');
    this.loop = loop;
    this.#runDirectory = runDirectory;
    this.concurrencyMax = this.random.between(1, 4);
    this.isVolatile = this.random.chance(0.85);
    this.time = simulateTime(Date.UTC(2027, 0, 1) + this.random.between(0, 10_000));
    this.database = simulateDatabase({
      began: () => this.witness.began(),
      committed: () => this.witness.committed(),
      struck: (fault) => {
        this.count(`storage: ${fault}`);
        this.trouble();
      },
    });
    this.machine = new Machine(this.time, { taken: (command) => this.witness.taken(command) });
    this.witness = new Witness({
      time: this.time,
      database: () => this.database,
      machine: () => this.machine,
      trustedFromMs,
      concurrencyMax: this.concurrencyMax,
      findRule: (lockDigest, workflowId) => this.packages.get(lockDigest)?.workflows.get(workflowId) ?? null,
      count: (what) => this.count(what),
      note: (line) => this.note(line),
    });
  }

  count(what: string): void {
    this.counts.set(what, 1 + (this.counts.get(what) ?? 0));
  }

  note(line: string): void {
    const { uptimeMs, bootId } = this.time.now();
    this.trace.push(`[${bootId.slice(-2)} ${(uptimeMs / 1_000).toFixed(3)}] ${line}`);
  }

  trouble(): void {
    this.#troubleUntilMs = this.time.now().uptimeMs + troubleMs;
  }

  /** Starts a process and lets it open; it may die on the way. */
  async open(drives = true): Promise<void> {
    this.note(drives ? 'a process opens' : 'a process opens that does not drive');
    this.count(drives ? 'process opened' : 'process opened that does not drive');
    this.#troubleUntilMs = 0;
    const handlerNames = [...new Set([...this.packages.values()].flatMap((one) => one.handlerNames))];
    const opened = new SimulatedProcess(
      {
        ...this,
        ids: this.#ids,
        runDirectory: this.#runDirectory,
        trustedFromMs,
        handlerNames: () => handlerNames,
        note: (line) => this.note(line),
        count: (what) => this.count(what),
        shortage: () => this.trouble(),
      },
      drives,
    );
    this.process = opened;
    opened.runtime.open().then(
      () => {
        opened.isOpen = true;
      },
      (error: unknown) => {
        this.#judgeError('open', opened, error);
        opened.die('because it cannot open');
      },
    );
    await this.settle();
  }

  /** Lets so many turns go on, or all that there are. Whether a process lives is looked at after each. */
  async settle(turnsMax = stepsMax): Promise<void> {
    await this.#pause();
    for (let turns = 0; turns < turnsMax && this.loop.pending() > 0; turns += 1) {
      if (turns === stepsMax - 1) {
        this.witness.complain('turns follow each other for ever');
      }
      this.attempt(() => this.loop.runOne());
      await this.#pause();
    }
    // A COMMIT that waits for another process leaves the transaction open: nothing is at rest.
    if (turnsMax === stepsMax && this.process?.isOpen === true && !this.database.real.isTransaction) {
      this.#checkRest(this.process);
    }
  }

  /** Something that a death may pass through. */
  attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof Death)) {
        this.witness.complain(`an error got through: ${error instanceof Error ? error.stack : error}`);
      }
    }
  }

  async #pause(): Promise<void> {
    await this.loop.drain();
    const defects = this.loop.takeDefects();
    if (this.process?.isDead === true) {
      // What its last promises did meanwhile, they did for nobody.
      this.process = null;
      this.loop.clear();
      await this.loop.drain();
      this.loop.clear();
      this.loop.takeDefects();
      this.database.recover();
      Object.assign(this.database.faults, calmFaults(), { full: this.database.faults.full });
      this.count('process died');
      return;
    }
    for (const defect of defects.filter((one) => !(one instanceof Death))) {
      this.witness.complain(`a defect: ${defect instanceof Error ? defect.stack : defect}`);
    }
  }

  /** Between two events nothing may be left to do. */
  #checkRest(process: SimulatedProcess): void {
    // Every run is folded when it ends, and all at the end; in between a part of the times is enough: it costs most.
    if (this.#looks.chance(foldShare)) {
      this.witness.checkFolds();
    }
    const { uptimeMs } = this.time.now();
    // What is due now, and has not rung, is nobody's neglect.
    const isDue = (this.time.nextMs() ?? Number.POSITIVE_INFINITY) <= uptimeMs;
    const isTroubled = isDue || this.database.faults.full !== null || uptimeMs < this.#troubleUntilMs;
    if (!isTroubled && process.drives && process.pendingCount() === 0) {
      for (const neglected of findNeglected(this.witness, process.busy())) {
        this.witness.complain(`at rest: ${neglected}`);
      }
    }
  }

  /** Time goes on, at most to the next thing that happens. Answers whether something can happen at all. */
  async advance(byMs: number | null): Promise<boolean> {
    const nextMs = this.time.nextMs();
    const { uptimeMs } = this.time.now();
    const distanceMs = nextMs === null ? null : Math.max(0, nextMs - uptimeMs);
    const stepMs = byMs === null ? (distanceMs ?? 0) : Math.min(byMs, distanceMs ?? byMs);
    this.attempt(() => this.time.advance(stepMs));
    await this.settle();
    return nextMs !== null;
  }

  /** Ends the process as its operator does. */
  async close(onStop: 'stop' | 'detach'): Promise<void> {
    const { process } = this;
    if (process === null) {
      return;
    }
    this.note(`close (${onStop})`);
    this.count(`closed: ${onStop}`);
    let isClosed = false;
    const ended = () => {
      isClosed = true;
    };
    process.runtime.close(onStop).then(ended, (error: unknown) => {
      this.#judgeError('close', process, error);
      ended();
    });
    process.isOpen = false;
    for (let steps = 0; !isClosed && !process.isDead; steps += 1) {
      await this.settle();
      if (!isClosed && !process.isDead) {
        await this.advance(null);
      }
      if (steps > 300) {
        this.witness.complain('a close does not come to its end');
        break;
      }
    }
    process.die('after its end');
    await this.settle();
  }

  /** Asks the runtime for something; the answer, if one comes, is judged. */
  ask<T>(what: string, question: (process: SimulatedProcess) => Promise<T>, answered: (answer: T) => void): void {
    const { process } = this;
    if (process === null) {
      return;
    }
    this.note(`ask: ${what}`);
    this.#waiting += 1;
    const done = (judge: () => void) => {
      this.#waiting -= 1;
      if (process.isDead) {
        this.count('answer lost');
      } else {
        judge();
      }
    };
    question(process).then(
      (answer) => done(() => answered(answer)),
      (error: unknown) => done(() => this.#judgeError(what, process, error)),
    );
  }

  get waiting(): number {
    return this.#waiting;
  }

  #judgeError(what: string, process: SimulatedProcess, error: unknown): void {
    if (process.isDead || error instanceof Death) {
      return;
    }
    this.note(`${what}: ${error}`);
    const code = isEdgeError(error) ? error.code : null;
    const isExpected = ['busy', 'full', 'unavailable', 'unknown-outcome'].includes(code ?? '');
    if (isExpected) {
      this.count(`answer: ${code}`);
    } else if (!(code === 'damaged' && this.witness.damaged.size > 0)) {
      this.witness.complain(`${what} failed: ${error instanceof Error ? error.stack : error}`);
    }
  }

  judgeStart({ name, isMeant }: StartAsked, outcome: StartOutcome): void {
    this.note(`answer: ${outcome.kind} ${'receipt' in outcome ? outcome.receipt.runId : ''}`);
    this.count(`start: ${outcome.kind}`);
    const named = [...this.witness.models.values()].filter((model) => name !== null && model.names.includes(name));
    if (outcome.kind === 'conflict' && named.every(isMeant)) {
      this.witness.complain(`a start is refused without a reason: ${outcome.reason}`);
    }
    if (named.length > 1) {
      this.witness.complain(`${name} has led to ${named.length} runs`);
    }
    if (outcome.kind !== 'created' && outcome.kind !== 'existing') {
      return;
    }
    const { receipt } = outcome;
    const model = this.witness.models.get(receipt.runId);
    if (model === undefined) {
      this.witness.complain(`run ${receipt.runId} was told to be there, and is not durable`);
    } else if (!isMeant(model)) {
      this.witness.complain(`run ${receipt.runId} was told, and is not the one that was asked for`);
    }
    if (name !== null) {
      this.#judgeReceipt(name, outcome.kind, receipt);
    }
  }

  #judgeReceipt(name: string, kind: 'created' | 'existing', receipt: Receipt): void {
    const text = JSON.stringify(receipt);
    const known = this.known.get(name) ?? null;
    if (kind === 'created' && known !== null) {
      this.witness.complain(`${name} has led to a second run, ${receipt.runId}`);
    }
    if (kind === 'existing' && known !== null && known !== text) {
      this.witness.complain(`${name} has another receipt than before: ${text}`);
    }
    this.known.set(name, text);
  }

  judgeCancel(runId: string, outcome: CancelOutcome): void {
    this.note(`answer: cancel of ${runId} ${outcome.kind}`);
    this.count(`cancel: ${outcome.kind}`);
    const model = this.witness.models.get(runId);
    if (outcome.kind === 'requested' || outcome.kind === 'existing') {
      this.witness.cancelAnswered.add(runId);
      if (!this.witness.damaged.has(runId) && (model === undefined || model.cancelReason === null)) {
        this.witness.complain(`run ${runId} was told to be cancelled, and the intent is not durable`);
      }
    } else if (outcome.kind === 'settled' && model?.status !== outcome.status) {
      this.witness.complain(`run ${runId} was told to be ${outcome.status}, and is ${model?.status}`);
    }
  }
}
