import { attended } from './attended.ts';
import type { Backend, BackendKind, Diagnostic } from './backend.ts';
import { Cancel } from './cancel.ts';
import * as check from './check.ts';
import { SessionError } from './errors.ts';
import { type ExecuteOptions, type SessionOptions, inputOf, sessionOptions } from './options.ts';
import { Run } from './run.ts';
import { Session } from './session.ts';

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
    if (!(state instanceof Uint8Array)) throw check.wrong('state', 'a Uint8Array', state);
    const session = await this.#open.resume(state, check.optional('id', 'string', options.id));
    return new Session(session, (run) => this.#cancellable(run));
  }

  /** Cancels all current executions, including those in sessions. Their outcome is `cancelled`. */
  cancel(): void {
    for (const each of this.#cancels) each.cancel();
  }

  async #cancellable(run: (cancel: Cancel) => Promise<Run>): Promise<Run> {
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
