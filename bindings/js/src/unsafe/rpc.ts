/// <reference types="node" />
// A JSON-RPC 2.0 connection to a process, over its standard streams: one message per line, with requests in both
// directions.
import type { Readable, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import type { Cancel } from '../cancel.ts';
import { errorOf } from '../errors.ts';
import { parseJson, stringifyJson } from '../json.ts';
import type { Answer } from '../tools.ts';

/** Answers a request from the peer. */
export type Answers = (method: string, parameters: any, signal: AbortSignal) => Promise<Answer>;

/** Receives a script's output. */
export type OnOutput = (stream: string, text: string) => void;

/** The options of a request. */
export interface Asking {
  cancel?: Cancel;
  onOutput?: OnOutput | undefined;
}

/** An error with which the peer rejected a request. */
export class RpcError extends Error {
  readonly code: number;
  /** The error's name in the protocol. */
  readonly reason: string;

  constructor({ code, message, data }: { code?: number; message?: string; data?: { code?: string } }) {
    super(String(message));
    this.code = Number(code);
    this.reason = String(data?.code ?? '');
  }
}

/** A connection's streams. */
export interface Streams {
  input: Readable;
  output: Writable;
  /** Keeps the process alive while `isHeld` is true. */
  hold(isHeld: boolean): void;
  close(): void;
}

interface Pending {
  resolve(result: any): void;
  reject(error: Error): void;
  onOutput: OnOutput | undefined;
}

/** A connection that sends requests to a peer and answers the peer's requests. */
export class Connection {
  readonly #streams: Streams;
  readonly #answers: Answers;
  readonly #pending = new Map<number, Pending>();
  readonly #running = new Map<unknown, AbortController>();
  readonly #decoder = new StringDecoder('utf8');
  #pieces: string[] = [];
  #count = 0;
  #gone: Error | undefined;

  constructor(streams: Streams, answers: Answers) {
    this.#streams = streams;
    this.#answers = answers;
    const { input, output } = streams;
    const over = (): void => this.#end(errorOf('UnavailableError', 'the script process has ended; create a new sandbox'));
    input.on('data', (bytes: Buffer) => this.#receive(this.#decoder.write(bytes)));
    input.on('close', over).on('end', over).on('error', over);
    output.on('error', over);
    streams.hold(false);
  }

  /** Sends a request to the peer, and returns its answer. A cancelled request is also answered. */
  async call(method: string, params: object, { cancel, onOutput }: Asking = {}): Promise<any> {
    if (this.#gone) throw this.#gone;
    const id = (this.#count += 1);
    try {
      return await new Promise((resolve, reject) => {
        this.#pending.set(id, { resolve, reject, onOutput });
        this.#streams.hold(true);
        this.#send({ id, method, params });
        cancel?.onCancel(() => this.#send({ method: 'cancel', params: { id } }));
      });
    } finally {
      cancel?.onCancel(undefined);
      this.#pending.delete(id);
      this.#release();
    }
  }

  close(why: Error): void {
    this.#end(why);
    this.#streams.close();
  }

  #release(): void {
    if (this.#pending.size === 0) this.#streams.hold(false);
  }

  #send(message: object, result?: string): void {
    if (this.#gone) return;
    const text = stringifyJson({ jsonrpc: '2.0', ...message });
    this.#streams.output.write(`${result === undefined ? text : `${text.slice(0, -1)},"result":${result}}`}\n`);
  }

  #end(why: Error): void {
    if (this.#gone) return;
    this.#gone = why;
    for (const call of this.#running.values()) call.abort();
    for (const { reject } of this.#pending.values()) reject(why);
  }

  #receive(text: string): void {
    const lines = text.split('\n');
    const rest = lines.pop() as string;
    for (const line of lines) {
      const whole = [...this.#pieces, line].join('');
      this.#pieces = [];
      try {
        this.#take(parseJson(whole));
      } catch {
        this.close(errorOf('UnavailableError', 'the script process sent an invalid message'));
      }
    }
    if (rest) this.#pieces.push(rest);
  }

  #take({ id, method, params, result, error }: any): void {
    if (method === undefined) {
      const pending = this.#pending.get(id);
      if (error) pending?.reject(new RpcError(error));
      else pending?.resolve(result);
    } else if (method === 'output') {
      this.#pending.get(params?.request)?.onOutput?.(params.stream, params.text);
    } else if (method === 'cancel') {
      this.#running.get(params?.id)?.abort();
    } else if (id !== undefined) {
      const call = new AbortController();
      this.#running.set(id, call);
      void this.#answers(method, params ?? {}, call.signal).then(([kind, text]) => {
        this.#running.delete(id);
        if (kind === 'returned') this.#send({ id }, text);
        else this.#send({ id, error: { code: -32000, message: text } });
      });
    }
  }
}
