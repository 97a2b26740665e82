import { attended } from './attended.ts';
import type { Attendant, Backend, BackendKind, Diagnostic, Stepped, SteppingBackend } from './backend.ts';
import { Cancel } from './cancel.ts';
import * as check from './check.ts';
import { SessionError, UnsupportedError } from './errors.ts';
import {
  type ExecuteOptions,
  type ListenOptions,
  type ResumeOptions,
  type SessionOptions,
  inputOf,
  resumeTimeout,
  sessionOptions,
} from './options.ts';
import { Run } from './run.ts';
import { Session } from './session.ts';
import { type WaitingCall, WaitingRun, answersOf, callsOf } from './waiting.ts';

/** A language and the permissions of its scripts. Every `execute` starts a new interpreter with new files. */
export class Sandbox implements AsyncDisposable {
  #backend: Backend | undefined;
  readonly #cancels = new Set<Cancel>();
  /** The kind of backend that runs the scripts. */
  readonly backend: BackendKind;

  /** See {@link createSandbox}. */
  constructor(kind: BackendKind, backend: Backend) {
    this.backend = kind;
    this.#backend = backend;
  }

  get #open(): Backend {
    if (!this.#backend) throw new SessionError('the sandbox was closed; create a new one');
    return this.#backend;
  }

  /** The language: `python` or `javascript`. */
  get language(): 'python' | 'javascript' {
    return this.#open.language;
  }

  /** The name of the runtime. */
  get runtimeName(): string {
    return this.#open.runtimeName;
  }

  /** The interpreter's version; `undefined` if it is not known. */
  get version(): string | undefined {
    return this.#open.version;
  }

  /**
   * Runs a script in a new interpreter and discards the interpreter. A script that raises or exceeds a limit still
   * returns a run.
   */
  async execute(source: string, options: ExecuteOptions = {}): Promise<Run> {
    const backend = this.#open;
    const input = inputOf(source, options);
    return this.#cancellable((cancel) => attended(cancel, options, async (to) => new Run(await backend.execute(input, to))));
  }

  /**
   * Starts a script in a new interpreter. Returns when the script has ended, or when it waits for answers to calls of
   * tools without `execute`. Such a run can be answered, or suspended and resumed later.
   */
  async start(source: string, options: ExecuteOptions = {}): Promise<Run | WaitingRun> {
    const backend = this.#stepping('start');
    const input = inputOf(source, options);
    return this.#step(options, (to) => backend.start(input, to));
  }

  /** Returns the backend. Throws `UnsupportedError` if it does not support runs that wait for answers. */
  #stepping(method: string): SteppingBackend {
    const backend = this.#open;
    if (isStepping(backend)) return backend;
    throw new UnsupportedError(`${method}: backend: "${this.backend}" does not support runs that wait for answers; use backend: "native" outside browsers`);
  }

  #step(options: ListenOptions, step: (to: Attendant) => Promise<Stepped>): Promise<Run | WaitingRun> {
    return this.#cancellable((cancel) =>
      attended(cancel, options, async (to) => {
        const stepped = await step(to);
        return 'calls' in stepped ? new WaitingRun(stepped, (next) => this.#step(options, next)) : new Run(stepped);
      }),
    );
  }

  /**
   * Parses a source with the language's own parser and returns its diagnostics: an empty list if the source is
   * well-formed. Executes nothing.
   */
  async validate(source: string, options: Pick<ExecuteOptions, 'name' | 'kind'> = {}): Promise<Diagnostic[]> {
    return this.#open.validate(inputOf(source, options));
  }

  /** Opens a session: an interpreter that persists between executions. */
  async session(options: SessionOptions = {}): Promise<Session> {
    const { id, context } = sessionOptions(options);
    return new Session(await this.#open.session(id, context), (run) => this.#cancellable(run));
  }

  /**
   * Restores a session from the bytes that `Session.hibernate` returned, in this or another process. Resuming bytes
   * from another author runs their code, within this sandbox's limits.
   */
  async resume(state: Uint8Array, options: { id?: string } = {}): Promise<Session> {
    check.known('options', options, ['id']);
    const session = await this.#open.resume(check.bytes('state', state), check.optional('id', 'string', options.id));
    return new Session(session, (run) => this.#cancellable(run));
  }

  /**
   * Resumes a run from the bytes that `WaitingRun.suspend` returned, in this or another process, with answers to its
   * calls. The script starts again, and repeats its earlier steps without calling tools. Then it continues with the
   * answers. The same bytes can be resumed several times. The sandbox must have the same language, tools and files as the
   * first one.
   */
  async resumeSuspended(state: Uint8Array, options: ResumeOptions = {}): Promise<Run | WaitingRun> {
    const backend = this.#stepping('resumeSuspended');
    const bytes = check.bytes('state', state);
    const timeoutMs = resumeTimeout(options);
    const answers = answersOf(options);
    const run = await this.#step(options, (to) => backend.startSuspended(bytes, timeoutMs, to));
    // A cancellation or a timeout may have ended the run.
    if (run instanceof Run || answers.length === 0) return run;
    try {
      return await run.answer({ answers: options.answers, denied: options.denied, failed: options.failed });
    } catch (error) {
      run.cancel();
      throw error;
    }
  }

  /** Returns the calls that a suspended run waits for. Runs nothing. */
  async suspendedCalls(state: Uint8Array): Promise<WaitingCall[]> {
    return callsOf(await this.#stepping('suspendedCalls').suspendedCalls(check.bytes('state', state)));
  }

  /**
   * Cancels all current executions, including those in sessions. Their outcome is `cancelled`. Runs that wait for answers
   * are not affected: see `WaitingRun.cancel`.
   */
  cancel(): void {
    for (const each of this.#cancels) each.cancel();
  }

  async #cancellable<Result>(run: (cancel: Cancel) => Promise<Result>): Promise<Result> {
    const cancel = new Cancel();
    this.#cancels.add(cancel);
    try {
      return await run(cancel);
    } finally {
      this.#cancels.delete(cancel);
    }
  }

  /**
   * Releases the sandbox's resources. Sessions of a component in a worker, of a daemon and of a separate process are
   * lost; sessions of the engine continue.
   */
  async close(): Promise<void> {
    const backend = this.#backend;
    this.#backend = undefined;
    await backend?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function isStepping(backend: Backend): backend is SteppingBackend {
  return 'startSuspended' in backend;
}
