/// <reference types="node" />
// An HTTP client for the daemon, over its Unix socket.
import { statSync } from 'node:fs';
import { Agent, type ClientRequest, type ClientRequestArgs, type IncomingMessage, request } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type FailureClass, errorOf } from '../errors.ts';
import { parseJson } from '../json.ts';

/**
 * Time after which this process closes an idle connection, in milliseconds. It is shorter than the daemon's idle
 * timeout, so that the daemon does not close a connection just when a request is sent on it.
 */
const IDLE_MS = 15_000;
/** Maximum number of concurrent requests of a client. The daemon limits the total number of connections. */
export const MAX_CONNECTIONS = 64;
/** Maximum number of idle connections of a client. */
const MAX_IDLE = 8;
/** Timeout for closing a session when its sandbox is closed, including its exit handlers, in milliseconds. */
const CLOSE_MS = 60_000;

const CLASSES: Record<string, FailureClass> = {
  'not-found': 'SessionError',
  exists: 'SessionError',
  'session-ended': 'SessionError',
  'session-busy': 'SessionError',
  'session-fenced': 'SessionError',
  'no-checkpoint': 'SessionError',
  'not-resumable': 'SessionError',
  variable: 'SessionError',
  unsupported: 'UnsupportedError',
  'execution-busy': 'UnavailableError',
  'quota-exceeded': 'UnavailableError',
  'rate-exceeded': 'UnavailableError',
  file: 'FilesError',
};

/** An error that the daemon reports: a problem document (RFC 9457). */
export class Problem extends Error {
  /** The error's name in the protocol; empty if the response is not a problem document. */
  readonly type: string;
  readonly status: number;

  constructor({ type, status, detail }: { type?: unknown; status?: unknown; detail?: unknown }) {
    super(String(detail ?? `HTTP status ${status}`));
    this.type = String(type ?? '');
    this.status = Number(status);
  }

  /** Returns the error to throw. `otherwise` is the error class for a request that the daemon rejects as invalid. */
  failure(otherwise: FailureClass = 'PolicyError'): Error {
    const known = CLASSES[this.type] ?? (this.status >= 500 ? 'UnavailableError' : otherwise);
    return errorOf(known, this.message, this);
  }
}

/** The path of the route that resumes a suspended execution. */
export const RESUME = '/v1/executions/resume';

/** The method and path of a request. */
export type Route = readonly [method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string];

/** The options of a request. */
interface Sent {
  body?: string | Uint8Array | undefined;
  headers?: Record<string, string>;
  timeoutMs?: number | undefined;
  agent?: Agent;
}

/** A connection pool to the daemon. Idle connections do not keep the process alive. */
export class Client {
  readonly #agent: OwnedSocketAgent;
  /** The agent for cancellations, which must not wait for the requests that they cancel. */
  readonly #cancelling: OwnedSocketAgent;
  readonly #running = new Set<ClientRequest>();
  #closed: Error | undefined;

  constructor(socketPath: string) {
    this.#agent = new OwnedSocketAgent(socketPath, MAX_CONNECTIONS);
    this.#cancelling = new OwnedSocketAgent(socketPath);
  }

  /** Sends a request and returns the JSON of the response, or `undefined` if the response has no body. */
  async json(route: Route, body?: string | Uint8Array, timeoutMs?: number): Promise<any> {
    const bytes = await this.bytes(route, body, timeoutMs);
    return bytes.length === 0 ? undefined : parseJson(bytes.toString());
  }

  /** Sends a request and returns the body of the response. Rejects with a `Problem` if the daemon reports an error. */
  bytes(route: Route, body?: string | Uint8Array, timeoutMs?: number): Promise<Buffer> {
    return this.#checked(async () => bytesOf(await this.#send(route, { body, timeoutMs })));
  }

  /**
   * Cancels an execution. Returns the result of an execution that was waiting for answers. Otherwise, returns
   * `undefined`: the response to another request contains the result, or the execution does not exist.
   */
  async cancel(path: string): Promise<any> {
    const cancel = async (): Promise<any> => {
      const bytes = await bytesOf(await this.#send(['DELETE', path], { agent: this.#cancelling }));
      return bytes.length === 0 ? undefined : parseJson(bytes.toString());
    };
    return this.#checked(cancel).catch(() => undefined);
  }

  /** Returns a part of a file that starts at `offset`, and the size of the whole file. */
  part(path: string, offset: number): Promise<[part: Buffer, sizeBytes: number]> {
    return this.#checked(async () => {
      const response = await this.#send(['GET', path], { headers: { range: `bytes=${offset}-` } });
      const [, sizeBytes] = /\/(\d+)$/.exec(response.headers['content-range'] ?? '') ?? [];
      if (sizeBytes === undefined) throw new Error('the response has no `Content-Range`');
      return [await bytesOf(response), Number(sizeBytes)];
    });
  }

  /** Sends a request, and calls `take` with each JSON object in the streamed response. */
  stream(route: Route, body: string, take: (chunk: any) => void): Promise<void> {
    return this.#checked(async () => {
      // A resumed execution replaces the state of the session that the request names.
      const headers = { accept: 'application/x-ndjson', ...(route[1] === RESUME && { 'if-match': '*' }) };
      const response = await this.#send(route, { body, headers });
      let pieces: Buffer[] = [];
      for await (const piece of response as AsyncIterable<Buffer>) {
        let from = 0;
        for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', from)) {
          pieces.push(piece.subarray(from, end));
          take(parseJson(Buffer.concat(pieces).toString()));
          pieces = [];
          from = end + 1;
        }
        if (from < piece.length) pieces.push(piece.subarray(from));
      }
    });
  }

  /** Rejects all current and later requests with `why`, deletes `paths` group by group, and closes the connections. */
  async close(why: Error, paths: () => Iterable<string>[]): Promise<void> {
    this.#closed = why;
    for (const each of this.#running) each.destroy(why);
    for (const group of paths()) {
      // Ignores errors, because an execution or session may already have ended.
      await Promise.all(Array.from(group, (path) => this.#send(['DELETE', path], { timeoutMs: CLOSE_MS }).then(bytesOf).catch(() => undefined)));
    }
    this.#agent.destroy();
    this.#cancelling.destroy();
  }

  async #checked<Result>(ask: () => Promise<Result>): Promise<Result> {
    if (this.#closed) throw this.#closed;
    try {
      return await ask();
    } catch (error) {
      if (this.#closed) throw this.#closed;
      if (error instanceof Problem) throw error;
      throw errorOf('UnavailableError', `the daemon does not respond (${(error as Error).message}); create a new sandbox`, error);
    }
  }

  async #send([method, path]: Route, { body, headers, timeoutMs, agent = this.#agent }: Sent): Promise<IncomingMessage> {
    const type = typeof body === 'string' ? 'application/json' : 'application/octet-stream';
    const options = {
      agent,
      method,
      path,
      headers: { ...(body !== undefined && { 'content-type': type }), ...headers },
      ...(timeoutMs !== undefined && { signal: AbortSignal.timeout(timeoutMs) }),
    };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = request(options, resolve);
      this.#running.add(sent);
      sent.once('close', () => this.#running.delete(sent)).on('error', reject);
      sent.end(body);
    });
    if (response.statusCode === undefined || response.statusCode < 400) return response;
    throw problemOf(response.statusCode, await bytesOf(response));
  }
}

async function bytesOf(response: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of response) pieces.push(piece);
  return Buffer.concat(pieces);
}

function problemOf(status: number, body: Buffer): Problem {
  try {
    return new Problem({ ...JSON.parse(body.toString()), status });
  } catch {
    return new Problem({ status });
  }
}

/** An agent that connects to a socket, and checks the socket's owner for each connection. */
class OwnedSocketAgent extends Agent {
  readonly #socketPath: string;

  constructor(socketPath: string, maxSockets = Infinity) {
    super({ keepAlive: true, timeout: IDLE_MS, maxSockets, maxFreeSockets: MAX_IDLE });
    this.#socketPath = socketPath;
  }

  override createConnection(_: ClientRequestArgs, callback?: (error: Error | null, stream: Duplex) => void): Duplex | undefined {
    try {
      // A socket created by another user is not trusted.
      if (process.geteuid && statSync(this.#socketPath).uid !== process.geteuid()) throw new Error(`the socket \`${this.#socketPath}\` belongs to another user`);
    } catch (error) {
      (callback as ((error: Error) => void) | undefined)?.(error as Error);
      return undefined;
    }
    return new RejectableSocket().connect(this.#socketPath);
  }
}

/**
 * A socket that ignores write errors after the daemon has closed the connection: the daemon can reject a request before
 * it has read the whole body.
 */
class RejectableSocket extends Socket {
  override _write(...[chunk, encoding, done]: Parameters<Socket['_write']>): void {
    super._write(chunk, encoding, (error) => done(lostOnly(error)));
  }

  override _writev(...[chunks, done]: Parameters<NonNullable<Socket['_writev']>>): void {
    super._writev?.(chunks, (error) => done(lostOnly(error)));
  }
}

/** Drops the error if the daemon has closed the connection. The response, if it arrives, contains the reason. */
function lostOnly(error?: NodeJS.ErrnoException | null): Error | null {
  return error && !['EPIPE', 'ECONNRESET'].includes(error.code ?? '') ? error : null;
}
