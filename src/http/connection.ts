// One accepted connection: what it is doing, and for how long it may. One request each: nothing is kept alive, so that
// a client never has to guess whether a reused connection took its request.
//
//   reading ──▶ working ──▶ answering ──▶ (closed)
//      │           └──▶ streaming ⇄ stalled ──▶ answering
//      └──▶ answering: refused before it was whole
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';

/** What each phase may take, in milliseconds; null where it is not the client that is waited for. */
const phaseMsMax = {
  reading: limits.httpRequestMsMax,
  working: null,
  streaming: null,
  stalled: limits.httpAnswerMsMax,
  answering: limits.httpAnswerMsMax,
} as const;

export type Phase = keyof typeof phaseMsMax;

export type TimePorts = { readonly clock: Clock; readonly alarm: Alarm };

export class Connection {
  readonly socket: Socket;
  readonly #ports: TimePorts;
  readonly #onLate: (connection: Connection) => void;
  #phase: Phase = 'reading';
  #cancelAlarm: CancelAlarm = () => {};
  /** The one request, once its head has come. */
  request: IncomingMessage | null = null;
  /** Ends a stream from outside; null while there is none. */
  endStream: (() => void) | null = null;

  /** `onLate` is told when a request does not arrive in time; in every other phase a late client is just dropped. */
  constructor(socket: Socket, ports: TimePorts, onLate: (connection: Connection) => void) {
    this.socket = socket;
    this.#ports = ports;
    this.#onLate = onLate;
    socket.once('close', () => this.#cancelAlarm());
    this.enter('reading');
  }

  get phase(): Phase {
    return this.#phase;
  }

  enter(phase: Phase): void {
    this.#cancelAlarm();
    this.#cancelAlarm = () => {};
    this.#phase = phase;
    const lengthMs = phaseMsMax[phase];
    if (lengthMs !== null && !this.socket.destroyed) {
      const { clock, alarm } = this.#ports;
      this.#cancelAlarm = alarm.set(clock.observe().uptimeMs + lengthMs, () => this.#expire());
    }
  }

  #expire(): void {
    if (this.#phase === 'reading') {
      this.#onLate(this);
    } else {
      this.socket.destroy();
    }
  }
}
