// The other end of a runtime of the drill: starts its process, gives it orders and keeps what it answers apart from
// what it never answered.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { EvidenceError } from '../operation.ts';
import { decodeLine, encodeLine, type Failure, type Order, type Reply } from './wire.ts';

const program = join(import.meta.dirname, 'runtime-program.ts');

/** What became of an order: answered, refused with an error, or neither, because the process is gone. */
export type Answer = { readonly outcome: unknown } | { readonly failure: Failure } | { readonly isGone: true };

export type Pending = {
  readonly answer: Promise<Answer>;
  /** Null as long as there is none. */
  now(): Answer | null;
};

export class RuntimeProcess {
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #lastId = 0;
  #said = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#said = `${this.#said}${text}`.slice(-4000);
    });
    createInterface({ input: child.stdout! }).on('line', (line) => this.#hear(decodeLine(line) as Reply));
    // Writing to a process that is gone is found out by its end.
    child.stdin!.on('error', () => {});
    this.#closed = once(child, 'close').then(() => {
      for (const [id, tell] of this.#waiting) {
        this.#waiting.delete(id);
        tell({ isGone: true });
      }
    });
  }

  /** Resolves when it has opened the store. Throws EvidenceError where it cannot. */
  static async start(options: { readonly bundle: string; readonly url: string }): Promise<RuntimeProcess> {
    const child = spawn(process.execPath, [program, options.bundle, options.url], { stdio: ['pipe', 'pipe', 'pipe'] });
    const runtime = new RuntimeProcess(child);
    const answer = await runtime.#expect(0).answer;
    if (!('outcome' in answer)) {
      const why = 'failure' in answer ? answer.failure.message : runtime.#said;
      await runtime.kill();
      throw new EvidenceError(`a runtime could not open its store: ${why.trim()}`);
    }
    return runtime;
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Gives an order and does not wait. */
  give(order: Order): Pending {
    this.#lastId += 1;
    const pending = this.#expect(this.#lastId);
    this.#child.stdin!.write(`${encodeLine({ id: this.#lastId, ...order })}\n`);
    return pending;
  }

  /** Gives an order that has to succeed. Throws EvidenceError with what the product said where it does not. */
  async order<T>(order: Order): Promise<T> {
    const answer = await this.give(order).answer;
    if ('outcome' in answer) {
      return answer.outcome as T;
    }
    const why = 'failure' in answer ? `${answer.failure.code}: ${answer.failure.message}` : 'the runtime is gone';
    throw new EvidenceError(`${'protocol' in order ? order.protocol : order.verb}: ${why} ${this.#said}`.trim());
  }

  submit<T>(protocol: string, input: unknown): Promise<T> {
    return this.order({ verb: 'submit', protocol, input });
  }

  read<T>(name: string, args: unknown): Promise<T> {
    return this.order({ verb: 'read', name, args });
  }

  /** Lets it end in order. */
  async close(): Promise<void> {
    this.#child.stdin!.end();
    await this.#closed;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#closed;
  }

  #expect(id: number): Pending {
    let now: Answer | null = null;
    const { promise, resolve } = Promise.withResolvers<Answer>();
    this.#waiting.set(id, resolve);
    const answer = promise.then((given) => {
      now = given;
      return given;
    });
    return { answer, now: () => now };
  }

  #hear({ id, ...answer }: Reply): void {
    this.#waiting.get(id)?.(answer);
    this.#waiting.delete(id);
  }
}
