// One session with the server. Owns its socket and what becomes of it; sends several statements at once and waits for
// all their answers. Knows nothing of transactions. An error of the connection, whenever it strikes, goes to whoever
// waits for an answer, and otherwise only marks the session as broken: it never ends the process.
import { Socket } from 'node:net';
import { Client, type ClientConfig } from 'pg';
import { EdgeError } from '../../core/errors.ts';
import { bounds } from './bounds.ts';
import { toEdgeError } from './failure.ts';
import { decodeJson } from './jsonb.ts';

export type SqlValue = null | number | string;

export type Statement = {
  readonly text: string;
  readonly values: readonly SqlValue[];
  /** Prepared under this name at its first use in a session; null for what is sent once. */
  readonly name: string | null;
};

export type Answer =
  | { readonly rows: readonly Readonly<Record<string, unknown>>[]; readonly command: string }
  | { readonly error: unknown };

const jsonOids: ReadonlySet<number> = new Set([114, 3802]);
// Everything comes as text; integers beyond 32 bits arrive inside of json and jsonb.
const types = { getTypeParser: (oid: number) => (jsonOids.has(oid) ? decodeJson : (text: string) => text) };

export class Connection {
  readonly #client: Client;
  readonly #socket: Socket;
  #isBroken = false;
  /** What the server warned of since the last look. */
  #warnings: string[] = [];
  /** How often this session sent something and waited. */
  roundTrips = 0;

  private constructor(client: Client, socket: Socket) {
    this.#client = client;
    this.#socket = socket;
    client.on('error', () => {
      this.#isBroken = true;
    });
    client.on('end', () => {
      this.#isBroken = true;
    });
    client.on('notice', ({ severity, message }) => {
      if (severity === 'WARNING') {
        this.#warnings.push(message ?? '');
      }
    });
  }

  /** Throws `unavailable` where the server cannot be reached or refuses. */
  static async open(url: string, answerMsMax: number = bounds.answerMsMax): Promise<Connection> {
    const socket = new Socket();
    const client = createClient({
      connectionString: url,
      stream: () => socket,
      application_name: 'qinglong-edge',
      connectionTimeoutMillis: Math.min(bounds.connectMsMax, answerMsMax),
      statement_timeout: bounds.statementMsMax,
      lock_timeout: bounds.lockMsMax,
      idle_in_transaction_session_timeout: bounds.idleInTransactionMsMax,
      query_timeout: answerMsMax,
      keepAlive: true,
      pipeline: true,
      types: types as never,
    });
    const connection = new Connection(client, socket);
    try {
      await client.connect();
      return connection;
    } catch (error) {
      connection.#isBroken = true;
      await connection.end();
      throw toEdgeError(error, 'connect to PostgreSQL');
    }
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Sends all of them at once; resolves with their answers, in order, when the last one is there. Never rejects. */
  exchange(statements: readonly Statement[]): Promise<readonly Answer[]> {
    this.roundTrips += 1;
    // One system call, and one wake-up of the server, for all of them: a third of this process's time was that.
    this.#socket.cork();
    const answers = statements.map((statement) => this.#send(statement));
    this.#socket.uncork();
    return Promise.all(answers);
  }

  async #send({ text, values, name }: Statement): Promise<Answer> {
    try {
      const query = { text, values: [...values], ...(name === null ? {} : { name }) };
      const { rows, command } = await this.#client.query(query);
      return { rows, command };
    } catch (error) {
      return { error };
    }
  }

  /** Calls back for each word that is notified on a channel that this session listens to, and once when it ends. */
  hear(onWord: (what: string) => void, onEnd: () => void): void {
    this.#client.on('notification', ({ payload }) => onWord(payload ?? ''));
    this.#client.on('end', onEnd);
    this.#client.on('error', onEnd);
  }

  takeWarnings(): readonly string[] {
    const warnings = this.#warnings;
    this.#warnings = [];
    return warnings;
  }

  /** Never throws; a session that does not say goodbye in time is dropped. */
  async end(): Promise<void> {
    const isSilent = this.#isBroken;
    this.#isBroken = true;
    try {
      if (isSilent) {
        // A socket that never connected has no end to wait for.
        void this.#client.end().catch(() => {});
        return;
      }
      await this.#client.end();
    } catch {
      // It is gone, which is what was asked for.
    }
  }
}

/** Throws `invalid` for a URL that cannot be used, such as one that names a certificate which is not there. */
function createClient(options: ClientConfig): Client {
  try {
    return new Client(options);
  } catch (cause) {
    const why = cause instanceof Error && 'code' in cause ? `${cause.code}` : 'it is no URL';
    throw new EdgeError('invalid', `the URL of the database cannot be used (${why})`, {
      cause,
      hint: 'look at its host, port and certificates; in a password, write # / ? @ : and % as %23, %2F and so on',
    });
  }
}
