// Sessions.
import { attended } from './attended.ts';
import type { BackendSession } from './backend.ts';
import type { Cancel } from './cancel.ts';
import * as check from './check.ts';
import { type ExecuteOptions, type SessionOptions, inputOf, sessionOptions } from './options.ts';
import { type FileEntry, Run, fileEntries, valueOf } from './run.ts';

/** A state that a session can be set back to. */
export interface Checkpoint {
  /** Its number within the session. */
  id: number;
  /** Whether the session took it by itself before an execution. */
  automatic: boolean;
  /** How many executions led to it. */
  executions: number;
  /** What differs from a new session, in bytes. */
  privateBytes: number;
}

/** What a session is and holds. */
export interface SessionInfo {
  /** Its id. */
  id: string;
  /** The language of its scripts. */
  language: 'python' | 'javascript';
  /** The runtime's name. */
  runtimeName: string;
  /** How many executions led to its state. */
  executions: number;
  /** Its linear memory, in bytes. */
  memoryBytes: number;
  /** How many of them are its own, as of its last checkpoint. */
  privateBytes: number;
  /** The bytes that it counts towards `limits.sessionTotalBytes`. */
  heldBytes: number;
  /** How many checkpoints it has. */
  checkpoints: number;
  /** How many automatic checkpoints were skipped for want of room. */
  checkpointsSkipped: number;
  /** How often it was rolled back. */
  rollbacks: number;
  /** Why it has ended, if it has. */
  ended?: string;
}

type Cancellable = (run: (cancel: Cancel) => Promise<Run>) => Promise<Run>;

/** What is done with a session is done in the order in which it was asked for, and holds no thread while it waits. */
type Turn = <Result>(ask: () => Promise<Result>) => Promise<Result>;

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

/** An interpreter that persists between executions: variables, functions, imports and files live on. */
export class Session implements AsyncDisposable {
  readonly #session: BackendSession;
  readonly #cancellable: Cancellable;
  readonly #turn = turns();
  /** Its global variables. */
  readonly variables: Variables;
  /** The files of its workspace, `/app`. */
  readonly files: SessionFiles;

  /** Use `Sandbox.session`. */
  constructor(session: BackendSession, cancellable: Cancellable) {
    this.#session = session;
    this.#cancellable = cancellable;
    this.variables = new Variables(session, this.#turn);
    this.files = new SessionFiles(session, this.#turn);
  }

  /** Its id, which is no secret. */
  get id(): string {
    return this.#session.id;
  }

  /** Why it has ended, if it has. */
  get ended(): string | undefined {
    return this.#session.ended;
  }

  /** What it is and holds. */
  async info(): Promise<SessionInfo> {
    return camel(JSON.parse(await this.#turn(() => this.#session.info())));
  }

  /** Runs a script in the session's interpreter, as `Sandbox.execute` does in a new one. `Run.value` is that of its last expression. */
  async execute(source: string, options: ExecuteOptions = {}): Promise<Run> {
    const input = inputOf(source, options);
    return this.#cancellable((cancel) =>
      this.#turn(() => attended(cancel, options, async (to) => new Run(await this.#session.execute(input, to)))),
    );
  }

  /** A second session of this one: neither sees what the other does from then on. */
  async fork(options: SessionOptions = {}): Promise<Session> {
    const { id, context } = sessionOptions(options);
    return new Session(await this.#turn(() => this.#session.fork(id, context)), this.#cancellable);
  }

  /** Saves the state, to come back to it with `undo`, and returns its number. */
  async checkpoint(): Promise<number> {
    return Number(await this.#turn(() => this.#session.checkpoint()));
  }

  /** The states that it can be set back to, oldest first. */
  async checkpoints(): Promise<Checkpoint[]> {
    return JSON.parse(await this.#turn(() => this.#session.checkpoints())).map(camel);
  }

  /**
   * Undoes what was last done, an execution or the writing of a file or variable, or restores a checkpoint. Returns its number. What was
   * written to the host stays there.
   */
  async undo(checkpoint?: number): Promise<number> {
    const id = checkpoint === undefined ? undefined : check.whole('checkpoint', checkpoint);
    return Number(await this.#turn(() => this.#session.undo(id)));
  }

  /** The session as bytes, for `Sandbox.resume` in any process on any machine that has the same interpreter. It lives on. */
  async hibernate(): Promise<Uint8Array> {
    return this.#turn(() => this.#session.hibernate());
  }

  /** Runs the interpreter's exit handlers and ends the session. Closing again does nothing. */
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

  /** A variable's value: an `Opaque` where JSON has no form for it; `undefined` where there is no such variable. */
  async get(name: string): Promise<unknown> {
    check.of('name', 'string', name);
    return valueOf(await this.#turn(() => this.#session.getVariable(name)));
  }

  /** Whether there is a variable of this name. */
  async has(name: string): Promise<boolean> {
    check.of('name', 'string', name);
    return (await this.#turn(() => this.#session.getVariable(name))) !== undefined;
  }

  /** Sets a variable to a value that JSON has. */
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

  /** What matches a pattern (`*.csv`, `src/**` and such): files, directories and links. Default: all. */
  async list(pattern = '**'): Promise<FileEntry[]> {
    check.of('pattern', 'string', pattern);
    return fileEntries(await this.#turn(() => this.#session.listFiles(pattern)));
  }

  /** A file's contents. */
  async read(path: string): Promise<Uint8Array> {
    check.of('path', 'string', path);
    return this.#turn(() => this.#session.readFile(path));
  }

  /** The same as text. */
  async readText(path: string): Promise<string> {
    return new TextDecoder().decode(await this.read(path));
  }

  /** Writes a file in place of one that is there, and makes the directories above it. */
  async write(path: string, contents: string | Uint8Array): Promise<void> {
    check.of('path', 'string', path);
    const bytes = check.contents('contents', contents);
    await this.#turn(() => this.#session.writeFile(path, bytes));
  }

  /** Removes a file, a link or a directory, with all that is below it if `recursive`. */
  async delete(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    check.of('path', 'string', path);
    check.known('options', options, ['recursive']);
    const recursive = check.optional('recursive', 'boolean', options.recursive) ?? false;
    await this.#turn(() => this.#session.deleteFile(path, recursive));
  }
}
