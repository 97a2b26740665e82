// The caller's side of a component in a worker. An endless script does not block the caller, and can be terminated.
import type { ExecutionHooks, Backend, BackendSession, Diagnostic, BackendExecution, Host, Input, Policy } from '../backend.ts';
import { errorOf } from '../errors.ts';
import { type Facts, executionOf, passOutput } from './backend.ts';
import type { Parts } from './load.ts';
import { type Begin, KIND_MARKS, type Named, type Shared, type StartWorker, type WorkerHandle, type WorkerMessage } from './messages.ts';

const REPLY_BYTES = 1 << 16;
/** The contract's default timeouts, in milliseconds. */
const TIMEOUT_MS = 10_000;
const TOOL_TIMEOUT_MS = 10_000;

/** The options of a worker. */
export interface WorkerOptions {
  parts: Parts;
  language: string;
  policy: Policy;
  host: Host;
  start: StartWorker;
  /** Milliseconds from the cancellation of a script to the termination of its worker. */
  terminateAfterMs: number;
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** A worker and its pending requests. */
class Link {
  /** Memory shared with the worker. Without shared memory, no signal reaches the worker while a script runs. */
  readonly shared: Shared | undefined;
  readonly #worker: WorkerHandle;
  readonly #host: Host;
  readonly #pending = new Map<number, Pending & { ended?: (why: string | undefined) => void }>();
  #count = 0;
  /** The reason for the end of the worker; `undefined` while it is alive. */
  gone: Error | undefined;
  #calls = new AbortController();
  #rest: Uint8Array = new Uint8Array();

  constructor(options: WorkerOptions) {
    this.#host = options.host;
    if (typeof SharedArrayBuffer !== 'undefined') {
      this.shared = { words: new Int32Array(new SharedArrayBuffer(8)), reply: new Uint8Array(new SharedArrayBuffer(REPLY_BYTES)) };
    }
    this.#worker = options.start(
      (received) => this.#receive(received),
      (error) => this.end(error instanceof Error ? error : new Error(String(error))),
    );
  }

  /** Sends a request to the worker and returns its result. Rejects if the worker has ended. */
  ask(message: (id: number) => unknown, ended?: (why: string | undefined) => void): Promise<unknown> {
    if (this.gone) return Promise.reject(this.gone);
    const id = this.#count;
    this.#count += 1;
    this.#worker.hold(true);
    const answered = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject, ...(ended && { ended }) }));
    this.#worker.post(message(id));
    return answered;
  }

  /** Sets the cancellation word of the current execution; `0` resets it for the next execution. */
  set cancelled(word: number) {
    if (!this.shared) return;
    Atomics.store(this.shared.words, 0, word);
    Atomics.notify(this.shared.words, 0);
    // The worker may be waiting for a tool's answer, on word 1.
    if (word !== 0) Atomics.notify(this.shared.words, 1);
  }

  /** Terminates the worker and rejects its pending requests. */
  end(why: Error): void {
    if (this.gone) return;
    this.gone = why;
    this.#worker.terminate();
    this.#calls.abort();
    for (const { reject } of this.#pending.values()) reject(why);
    this.#pending.clear();
  }

  #receive(received: WorkerMessage): void {
    if (received.kind === 'call') this.#call(received.tool, received.parameters);
    else if (received.kind === 'more') this.#reply();
    else if (received.kind === 'dropped') this.#calls.abort();
    else {
      const pending = this.#pending.get(received.id);
      this.#pending.delete(received.id);
      if (this.#pending.size === 0) this.#worker.hold(false);
      pending?.ended?.(received.ended);
      if (received.kind === 'done') pending?.resolve(received.value);
      else pending?.reject(received.class ? errorOf(received.class, received.message) : new Error(received.message));
    }
  }

  #call(tool: number, parameters: string): void {
    const calls = new AbortController();
    this.#calls = calls;
    void this.#host.answer(tool, parameters, calls.signal).then(([kind, text]) => {
      // Discards an answer that is too late: the worker no longer waits for this call.
      if (calls.signal.aborted || this.#calls !== calls) return;
      this.#rest = new TextEncoder().encode(`${KIND_MARKS[kind]}${text}`);
      this.#reply();
    });
  }

  /** Sends the next chunk of a tool's answer. */
  #reply(): void {
    if (!this.shared) return;
    const { words, reply } = this.shared;
    const piece = this.#rest.subarray(0, REPLY_BYTES);
    this.#rest = this.#rest.subarray(piece.length);
    reply.set(piece);
    Atomics.store(words, 1, this.#rest.length === 0 ? piece.length + 1 : -(piece.length + 1));
    Atomics.notify(words, 1);
  }
}

/** Creates a sandbox in a worker. */
export async function openInWorker(options: WorkerOptions): Promise<Backend> {
  const backend = new WorkerBackend(options);
  await backend.begin();
  return backend;
}

type WorkerInfo = { language: 'python' | 'javascript'; runtimeName: string; version: string | undefined };

class WorkerBackend implements Backend {
  language: 'python' | 'javascript' = 'python';
  runtimeName = '';
  version: string | undefined;
  readonly #options: WorkerOptions;
  #link: Promise<Link> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  async begin(): Promise<void> {
    await this.#current();
  }

  /** Returns the worker. Starts a new one if the previous worker has ended. */
  async #current(): Promise<Link> {
    const link = await this.#link;
    if (link && !link.gone) return link;
    const made = this.#start();
    this.#link = made;
    return made;
  }

  async #start(): Promise<Link> {
    const { parts, language, policy } = this.#options;
    const link = new Link(this.#options);
    const toolTimeoutMs = Number(policy.limits['toolTimeoutMs'] ?? TOOL_TIMEOUT_MS);
    const begin: Begin = { parts, language, policy, shared: link.shared, toolTimeoutMs };
    try {
      const info = (await link.ask(() => begin)) as WorkerInfo;
      this.language = info.language;
      this.runtimeName = info.runtimeName;
      this.version = info.version;
    } catch (error) {
      link.end(error as Error);
      throw error;
    }
    return link;
  }

  /** Runs requests one at a time, so that a cancellation only affects the intended execution. */
  turn<Result>(ask: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(ask, ask);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Sends a request to the sandbox. */
  async #ask(method: string, ...values: unknown[]): Promise<[unknown, Link]> {
    const link = await this.#current();
    return [await link.ask((id) => ({ id, session: undefined, method, values })), link];
  }

  /** Executes a script, and stops it when it is cancelled or times out. */
  async watched(link: Link, session: number | undefined, input: Input, { cancel: cancellation }: ExecutionHooks, ended?: (why: string | undefined) => void): Promise<Facts> {
    const { policy, terminateAfterMs } = this.#options;
    const timers: ReturnType<typeof setTimeout>[] = [];
    const terminate = (): void => {
      const why = link.shared
        ? `the script ignored an interrupt for ${terminateAfterMs} ms, and its worker was terminated`
        : 'the worker was terminated, because a script without shared memory cannot be interrupted';
      link.end(errorOf('TerminatedError', `${why}; the effects of the script are unknown`));
    };
    const cancel = (): void => {
      link.cancelled = 1;
      timers.push(setTimeout(terminate, link.shared ? terminateAfterMs : 0));
    };
    const timeoutMs = Math.min(Number(policy.limits['timeoutMs'] ?? TIMEOUT_MS), input.timeoutMs ?? Infinity);
    // This timer is for components without a clock, which cannot enforce the timeout themselves. Timeouts beyond the
    // range of timers are ignored.
    if (timeoutMs < 0x7fff_ffff - 2 * terminateAfterMs) timers.push(setTimeout(cancel, timeoutMs + terminateAfterMs));
    link.cancelled = 0;
    const { isCancelled } = cancellation;
    // Without shared memory, the worker itself rejects an execution that was cancelled before it was sent, so the
    // worker need not be terminated.
    if (!isCancelled || link.shared) cancellation.onCancel(cancel);
    try {
      return (await link.ask((id) => ({ id, session, method: 'execute', values: [input], isCancelled }), ended)) as Facts;
    } finally {
      cancellation.onCancel(undefined);
      timers.forEach(clearTimeout);
      link.cancelled = 0;
    }
  }

  execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
    return this.turn(async () => {
      const executed = executionOf(await this.watched(await this.#current(), undefined, input, hooks));
      passOutput(executed, hooks);
      return executed;
    });
  }

  validate(input: Input): Promise<Diagnostic[]> {
    return this.turn(async () => (await this.#ask('validate', input))[0] as Diagnostic[]);
  }

  session(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    return this.turn(async () => this.#session(await this.#ask('session', id, context)));
  }

  resume(state: Uint8Array, id: string | undefined): Promise<BackendSession> {
    return this.turn(async () => this.#session(await this.#ask('resume', state, id)));
  }

  #session([named, link]: [unknown, Link]): BackendSession {
    return new WorkerSession(this, link, named as Named);
  }

  async close(): Promise<void> {
    const link = await this.#link?.catch(() => undefined);
    link?.end(errorOf('SessionLostError', 'the sandbox was closed together with its worker'));
  }
}

class WorkerSession implements BackendSession {
  readonly #backend: WorkerBackend;
  readonly #link: Link;
  readonly #named: Named;
  #ended: string | undefined;

  constructor(backend: WorkerBackend, link: Link, named: Named) {
    this.#backend = backend;
    this.#link = link;
    this.#named = named;
  }

  get id(): string {
    return this.#named.id;
  }

  get ended(): string | undefined {
    return this.#link.gone ? `the session was lost with its worker: ${this.#link.gone.message}` : this.#ended;
  }

  /** Sends a request to the session. Fails if the session was lost with its worker. */
  async #with<Result>(ask: (link: Link) => Promise<Result>): Promise<Result> {
    return this.#backend.turn(async () => {
      const lost = (cause: unknown): Error => errorOf('SessionLostError', this.ended ?? 'the session was lost with its worker', cause);
      if (this.#link.gone) throw lost(this.#link.gone);
      try {
        return await ask(this.#link);
      } catch (error) {
        throw this.#link.gone ? lost(error) : error;
      }
    });
  }

  async #ask<Result>(method: string, ...values: unknown[]): Promise<Result> {
    const session = this.#named.session;
    const ended = (why: string | undefined): void => void (this.#ended ??= why);
    return this.#with((link) => link.ask((id) => ({ id, session, method, values }), ended) as Promise<Result>);
  }

  execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
    return this.#with(async (link) => {
      const facts = await this.#backend.watched(link, this.#named.session, input, hooks, (why) => void (this.#ended ??= why));
      const executed = executionOf(facts, this);
      passOutput(executed, hooks);
      return executed;
    });
  }

  getVariable(name: string): ReturnType<BackendSession['getVariable']> {
    return this.#ask('getVariable', name);
  }

  setVariable(name: string, json: string): Promise<void> {
    return this.#ask('setVariable', name, json);
  }

  listFiles(pattern: string): ReturnType<BackendSession['listFiles']> {
    return this.#ask('listFiles', pattern);
  }

  readFile(path: string): Promise<Uint8Array> {
    return this.#ask('readFile', path);
  }

  writeFile(path: string, contents: Uint8Array): Promise<void> {
    return this.#ask('writeFile', path, contents);
  }

  deleteFile(path: string, recursive: boolean): Promise<void> {
    return this.#ask('deleteFile', path, recursive);
  }

  async fork(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    return new WorkerSession(this.#backend, this.#link, await this.#ask<Named>('fork', id, context));
  }

  checkpoint(): Promise<bigint> {
    return this.#ask('checkpoint');
  }

  checkpoints(): Promise<string> {
    return this.#ask('checkpoints');
  }

  undo(checkpoint: bigint | undefined): Promise<bigint> {
    return this.#ask('undo', checkpoint);
  }

  hibernate(): Promise<Uint8Array> {
    return this.#ask('hibernate');
  }

  info(): Promise<string> {
    return this.#ask('info');
  }

  async close(): Promise<void> {
    if (this.ended === undefined) await this.#ask('close');
  }
}
