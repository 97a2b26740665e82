import { runWithHooks } from './hooks.ts';
import type { BackendSession, Diagnostic } from './backend.ts';
import * as check from './check.ts';
import { UnsupportedError } from './errors.ts';
import {
  type ExecuteOptions,
  type ResumeOptions,
  type SessionOptions,
  type ValidateOptions,
  inputOf,
  sessionOptions,
} from './options.ts';
import { type FileEntry, Run, fileEntries, valueOf } from './run.ts';
import { type Cancellable, Starter, type Turn } from './stepping.ts';
import type { WaitingRun } from './waiting.ts';

/** A saved state of a session. */
export interface Checkpoint {
  /** The checkpoint's ID, unique within the session. */
  id: number;
  /** True if the session took the checkpoint automatically before an execution. */
  automatic: boolean;
  /** The number of executions up to this state. */
  executions: number;
  /** Private memory in bytes: the difference from a new session. */
  privateBytes: number;
}

/** The state of a session after its last execution. */
export interface SessionInfo {
  /** The session's ID. */
  id: string;
  /** The language of the session's scripts. */
  language: 'python' | 'javascript';
  /** The runtime's name. */
  runtimeName: string;
  /** The number of executions up to the current state. */
  executions: number;
  /** The size of the linear memory, in bytes. */
  memoryBytes: number;
  /** The part of the linear memory that is private to the session, in bytes, as of its last checkpoint. */
  privateBytes: number;
  /** The bytes charged to `limits.sessionTotalBytes` for the session. */
  heldBytes: number;
  /** The number of checkpoints. */
  checkpoints: number;
  /** The number of automatic checkpoints that were skipped because they would have exceeded a limit. */
  checkpointsSkipped: number;
  /** The number of rollbacks. */
  rollbacks: number;
  /** The reason why the session ended; absent while it is open. */
  ended?: string;
}

function turns(): Turn {
  let last: Promise<unknown> = Promise.resolve();
  return (ask) => {
    const result = last.then(ask, ask);
    last = result.catch(() => undefined);
    return result;
  };
}

function camel(record: Record<string, unknown>): any {
  const entries = Object.entries(record).filter(([, value]) => value !== null);
  return Object.fromEntries(entries.map(([key, value]) => [key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]));
}

/** Restores the session of a suspended run, in its state before the run. */
export type Restore = (state: Uint8Array) => Promise<BackendSession>;

/** An interpreter that persists between executions, with its variables, functions, imports and files. */
export class Session implements AsyncDisposable {
  readonly #session: BackendSession;
  readonly #cancellable: Cancellable;
  readonly #restore: Restore;
  readonly #turn = turns();
  /** The session's global variables. */
  readonly variables: Variables;
  /** The files of the session's workspace, `/app`. */
  readonly files: SessionFiles;

  /** Use `Sandbox.session` to open a session. */
  constructor(session: BackendSession, cancellable: Cancellable, restore: Restore) {
    this.#session = session;
    this.#cancellable = cancellable;
    this.#restore = restore;
    this.variables = new Variables(session, this.#turn);
    this.files = new SessionFiles(session, this.#turn);
  }

  /** The session's ID. It is not a secret. */
  get id(): string {
    return this.#session.id;
  }

  /** The reason why the session ended; `undefined` while it is open. */
  get ended(): string | undefined {
    return this.#session.ended;
  }

  /** Returns the session's state after its last execution. */
  async info(): Promise<SessionInfo> {
    return camel(JSON.parse(await this.#turn(() => this.#session.info())));
  }

  /** Runs a script in the session's interpreter. `Run.value` is the value of the script's last expression. */
  async execute(source: string, options: ExecuteOptions = {}): Promise<Run> {
    const input = inputOf(source, options);
    return this.#cancellable((cancel) =>
      this.#turn(() => runWithHooks(cancel, options, async (to) => new Run(await this.#session.execute(input, to)))),
    );
  }

  /**
   * Parses a source, like `Sandbox.validate`. With `types`, also checks the types of a well-formed Python script against
   * the tools and the session's variables. Requires `backend: 'native'` or `'daemon'`, and for `types` a daemon with
   * `--types`.
   */
  async validate(source: string, { types, ...options }: ValidateOptions = {}): Promise<Diagnostic[]> {
    const input = inputOf(source, options);
    const isTyped = check.optional('types', 'boolean', types) === true;
    return this.#turn(async () => {
      if (this.#session.validate) return this.#session.validate(input, isTyped);
      throw new UnsupportedError('validate: only native and daemon sessions support validation; use backend: "native" or "daemon", or `Sandbox.validate`');
    });
  }

  /**
   * Starts a script, like `Sandbox.start`. While the run waits for answers in memory, other executions in the session
   * wait. When the run is suspended, the session is rolled back to its last checkpoint. The bytes then contain the
   * session in its state before the script.
   */
  async start(source: string, options: ExecuteOptions = {}): Promise<Run | WaitingRun> {
    return this.#starter('start').start(source, options);
  }

  /**
   * Resumes a run that was suspended in a session, like `Sandbox.resumeSuspended`. The session must be one that
   * `Sandbox.resumeSuspendedSession` has restored from these bytes.
   */
  async resumeSuspended(state: Uint8Array, options: ResumeOptions = {}): Promise<Run | WaitingRun> {
    return this.#starter('resumeSuspended').resume(state, options);
  }

  #starter(method: string): Starter<BackendSession> {
    const fork = async (state: Uint8Array): Promise<Starter<BackendSession>> => this.#copy(await this.#restore(state)).#starter('fork');
    return new Starter(method, undefined, this.#session, this.#cancellable, { session: this, turn: this.#turn, fork });
  }

  #copy(session: BackendSession): Session {
    return new Session(session, this.#cancellable, this.#restore);
  }

  /** Creates a second session with the same state. Later changes in either session do not affect the other. */
  async fork(options: SessionOptions = {}): Promise<Session> {
    const { id, context } = sessionOptions(options);
    return this.#copy(await this.#turn(() => this.#session.fork(id, context)));
  }

  /** Takes a checkpoint of the state for `undo`, and returns its ID. */
  async checkpoint(): Promise<number> {
    return Number(await this.#turn(() => this.#session.checkpoint()));
  }

  /** Returns the session's checkpoints, oldest first. */
  async checkpoints(): Promise<Checkpoint[]> {
    return JSON.parse(await this.#turn(() => this.#session.checkpoints())).map(camel);
  }

  /**
   * Restores a checkpoint; by default, undoes the last change: an execution, or a write to a file or variable. Returns
   * the ID of the restored checkpoint. Files that were written to the host remain.
   */
  async undo(checkpoint?: number): Promise<number> {
    const id = checkpoint === undefined ? undefined : check.whole('checkpoint', checkpoint);
    return Number(await this.#turn(() => this.#session.undo(id)));
  }

  /**
   * Serializes the session for `Sandbox.resume`, in any process on any machine that has the same interpreter. The
   * session continues.
   */
  async hibernate(): Promise<Uint8Array> {
    return this.#turn(() => this.#session.hibernate());
  }

  /** Runs the interpreter's exit handlers and ends the session. Does nothing if the session has already ended. */
  async close(): Promise<void> {
    await this.#turn(() => this.#session.close());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A session's global variables, by name. */
export class Variables {
  readonly #session: BackendSession;
  readonly #turn: Turn;

  constructor(session: BackendSession, turn: Turn) {
    this.#session = session;
    this.#turn = turn;
  }

  /**
   * Returns a variable's value: an `Opaque` if JSON cannot represent it, `undefined` if the variable does not exist.
   * Integers outside ±(2^53 − 1) are bigints.
   */
  async get(name: string): Promise<unknown> {
    check.of('name', 'string', name);
    return valueOf(await this.#turn(() => this.#session.getVariable(name)));
  }

  /** Returns `true` if the variable exists. */
  async has(name: string): Promise<boolean> {
    check.of('name', 'string', name);
    return (await this.#turn(() => this.#session.getVariable(name))) !== undefined;
  }

  /** Sets a variable to a value that JSON can represent. Bigints become integers. */
  async set(name: string, value: unknown): Promise<void> {
    const json = check.json('value', value);
    check.of('name', 'string', name);
    await this.#turn(() => this.#session.setVariable(name, json));
  }
}

/** The files of a session's workspace. Paths are relative to `/app`. */
export class SessionFiles {
  readonly #session: BackendSession;
  readonly #turn: Turn;

  constructor(session: BackendSession, turn: Turn) {
    this.#session = session;
    this.#turn = turn;
  }

  /** Lists the files, directories and links that match a pattern (`*.csv`, `src/**`). Default: all. */
  async list(pattern = '**'): Promise<FileEntry[]> {
    check.of('pattern', 'string', pattern);
    return fileEntries(await this.#turn(() => this.#session.listFiles(pattern)));
  }

  /** Returns a file's contents. Throws `FilesError` if the file does not exist. */
  async read(path: string): Promise<Uint8Array> {
    check.of('path', 'string', path);
    return this.#turn(() => this.#session.readFile(path));
  }

  /** Returns a file's contents as text. Throws `FilesError` if the file does not exist. */
  async readText(path: string): Promise<string> {
    return new TextDecoder().decode(await this.read(path));
  }

  /** Writes or replaces a file. Creates missing parent directories. */
  async write(path: string, contents: string | Uint8Array): Promise<void> {
    check.of('path', 'string', path);
    const bytes = check.contents('contents', contents);
    await this.#turn(() => this.#session.writeFile(path, bytes));
  }

  /** Deletes a file, a link or a directory; with `recursive`, also everything below a directory. */
  async delete(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    check.of('path', 'string', path);
    check.known('options', options, ['recursive']);
    const recursive = check.optional('recursive', 'boolean', options.recursive) ?? false;
    await this.#turn(() => this.#session.deleteFile(path, recursive));
  }
}
