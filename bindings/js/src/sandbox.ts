import { runWithHooks } from './hooks.ts';
import type { Backend, BackendKind, BackendSession, Diagnostic, StartableBackend } from './backend.ts';
import { Cancel } from './cancel.ts';
import * as check from './check.ts';
import { SessionError, unsupportedTypes } from './errors.ts';
import {
  type ExecuteOptions,
  type ResumeOptions,
  type SessionOptions,
  type ValidateOptions,
  inputOf,
  sessionOptions,
} from './options.ts';
import { Run } from './run.ts';
import { Session } from './session.ts';
import { Starter } from './stepping.ts';
import { type WaitingCall, type WaitingRun, callsOf } from './waiting.ts';

/** A sandbox for scripts of one language. Every `execute` starts a new interpreter with new files. */
export class Sandbox implements AsyncDisposable {
  #backend: Backend | undefined;
  readonly #cancels = new Set<Cancel>();
  /** The kind of backend that runs the scripts. */
  readonly backend: BackendKind;

  /** Use {@link createSandbox} to create a sandbox. */
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
   * Runs a script in a new interpreter and discards the interpreter. Also returns a run if the script raises an
   * exception or exceeds a limit.
   */
  async execute(source: string, options: ExecuteOptions = {}): Promise<Run> {
    const backend = this.#open;
    const input = inputOf(source, options);
    return this.#cancellable((cancel) => runWithHooks(cancel, options, async (to) => new Run(await backend.execute(input, to))));
  }

  /**
   * Starts a script in a new interpreter. Returns when the script has ended, or when it waits for answers to calls of
   * tools without `execute`. A `WaitingRun` can be answered, or suspended and resumed later.
   */
  async start(source: string, options: ExecuteOptions = {}): Promise<Run | WaitingRun> {
    return this.#starter('start').start(source, options);
  }

  #starter(method: string): Starter<StartableBackend> {
    return new Starter(method, this.backend, this.#open as StartableBackend, (run) => this.#cancellable(run));
  }

  /**
   * Parses a source with the language's own parser and returns its diagnostics: an empty list if the source is
   * well-formed. Executes nothing. With `types`, also checks the types of a well-formed Python script.
   */
  async validate(source: string, { types, ...options }: ValidateOptions = {}): Promise<Diagnostic[]> {
    const backend = this.#open;
    const input = inputOf(source, options);
    if (check.optional('types', 'boolean', types) !== true) return backend.validate(input);
    if (backend.language !== 'python' || !backend.checkTypes) throw unsupportedTypes(backend.language, this.backend);
    return backend.checkTypes(input);
  }

  /** Opens a session: an interpreter that persists between executions. */
  async session(options: SessionOptions = {}): Promise<Session> {
    const { id, context } = sessionOptions(options);
    const backend = this.#open;
    return this.#session(await backend.session(id, context), backend);
  }

  #session(session: BackendSession, backend: Backend): Session {
    // Called only for suspended runs, so the backend supports `resumeSuspendedSession`.
    const restore = (state: Uint8Array): Promise<BackendSession> => (backend as StartableBackend).resumeSuspendedSession(state, undefined);
    return new Session(session, (run) => this.#cancellable(run), restore);
  }

  /**
   * Restores a session from the bytes that `Session.hibernate` returned, in this or another process. Resuming bytes
   * from another author runs that author's code, within this sandbox's limits.
   */
  async resume(state: Uint8Array, options: { id?: string } = {}): Promise<Session> {
    check.known('options', options, ['id']);
    const backend = this.#open;
    return this.#session(await backend.resume(check.bytes('state', state), check.optional('id', 'string', options.id)), backend);
  }

  /**
   * Resumes a run from the bytes that `WaitingRun.suspend` returned, in this or another process, with answers to its
   * calls. The script starts again, and repeats its earlier steps without calling tools. Then it continues with the
   * answers. The same bytes can be resumed several times.
   *
   * The sandbox must have the same language, tools, files, arguments and environment variables as the sandbox in which
   * the run was suspended. To resume a run that was suspended in a session, use the session that
   * `resumeSuspendedSession` restores.
   */
  async resumeSuspended(state: Uint8Array, options: ResumeOptions = {}): Promise<Run | WaitingRun> {
    return this.#starter('resumeSuspended').resume(state, options);
  }

  /** Returns the calls that a suspended run waits for. Runs nothing. */
  async suspendedCalls(state: Uint8Array): Promise<WaitingCall[]> {
    const { place } = this.#starter('suspendedCalls');
    return callsOf(await place.suspendedCalls(check.bytes('state', state)));
  }

  /**
   * Restores the session of a suspended run, in its state before the run. The session's `resumeSuspended` then resumes
   * the run. The interpreter's random number generators have the same state in all sessions that are restored from
   * these bytes.
   */
  async resumeSuspendedSession(state: Uint8Array, options: { id?: string } = {}): Promise<Session> {
    check.known('options', options, ['id']);
    const { place } = this.#starter('resumeSuspendedSession');
    const id = check.optional('id', 'string', options.id);
    return this.#session(await place.resumeSuspendedSession(check.bytes('state', state), id), place);
  }

  /**
   * Cancels all current executions, including executions in sessions. Their outcome is `cancelled`. To cancel a run
   * that waits for answers, use `WaitingRun.cancel`.
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
   * Releases the sandbox's resources. Sessions in a worker, in a daemon and in a separate process are lost; other
   * sessions continue.
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
