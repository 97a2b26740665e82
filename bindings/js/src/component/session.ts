import type { Files, Session as Handle } from '../../contract/interfaces/glovebox-sandbox-sandbox.js';
import { stringifyJson } from '../json.ts';
import type { CheckpointInfo, Execution, FileEntry, GuestValue, Request, SessionInfo } from './contract.ts';
import { dispose, listFiles, readBlob, readFile } from './files.ts';
import type { Instance } from './provider.ts';

/** The session's access to its sandbox. */
export interface Access {
  enter<Result>(call: (handle: Handle, instance: Instance) => Result): Promise<Result>;
  fork(): Promise<Session>;
  drop(): void;
}

/** An interpreter that persists between executions, with its variables, functions, imports and files. */
export class Session implements AsyncDisposable {
  /** The session's ID, which the provider chooses. It is not a secret. */
  readonly id: string;
  readonly #access: Access;

  constructor(id: string, access: Access) {
    this.id = id;
    this.#access = access;
  }

  /** Returns the session's state after its last execution. */
  async info(): Promise<SessionInfo> {
    return this.#access.enter((handle) => handle.info());
  }

  /** Runs a script in the session's interpreter. */
  async execute(script: string | Request): Promise<Execution> {
    return this.#access.enter((handle) => handle.execute(typeof script === 'string' ? { source: script } : script));
  }

  /** Returns a global variable, or `undefined` if there is no such variable. */
  async getVariable(name: string): Promise<GuestValue | undefined> {
    return this.#access.enter((handle) => handle.getVariable(name));
  }

  /** Sets a global variable to a value that JSON can represent. Bigints become integers. */
  async setVariable(name: string, value: unknown): Promise<void> {
    return this.#access.enter((handle) => handle.setVariable(name, stringifyJson(value ?? null)));
  }

  /** Lists the entries of the workspace that match a pattern. Default: everything. */
  async listFiles(pattern = '**'): Promise<FileEntry[]> {
    return this.#withFiles((files) => listFiles(files, pattern));
  }

  /** Reads a whole file. */
  async readFile(path: string): Promise<Uint8Array> {
    return this.#withFiles((files) => readFile(files, path));
  }

  /** Writes or replaces a file. Creates missing parent directories. */
  async writeFile(path: string, contents: Uint8Array | string): Promise<void> {
    const bytes = typeof contents === 'string' ? new TextEncoder().encode(contents) : contents;
    return this.#access.enter((handle) => handle.writeFile(path, bytes, 'replace'));
  }

  /** Deletes a file, a link or a directory; with `recursive`, also everything below a directory. */
  async deleteFile(path: string, { recursive = false } = {}): Promise<void> {
    return this.#access.enter((handle) => handle.deleteFile(path, recursive));
  }

  /** Creates a second session with the same state. Later changes in either session do not affect the other. */
  async fork(): Promise<Session> {
    return this.#access.fork();
  }

  /** Takes a checkpoint of the state for `undoTo`. */
  async checkpoint(): Promise<bigint> {
    return this.#access.enter((handle) => handle.checkpoint());
  }

  /** Returns the session's checkpoints, oldest first. */
  async checkpoints(): Promise<CheckpointInfo[]> {
    return this.#access.enter((handle) => handle.checkpoints());
  }

  /** Restores the latest checkpoint that differs from the current state, and returns its ID. */
  async undo(): Promise<bigint> {
    return this.#access.enter((handle) => handle.undo());
  }

  /** Restores a checkpoint and discards the later ones. */
  async undoTo(checkpoint: bigint): Promise<void> {
    return this.#access.enter((handle) => handle.undoTo(checkpoint));
  }

  /** Serializes the session for `Sandbox.resume`, in any provider with the same runtime. */
  async hibernate(): Promise<Uint8Array> {
    return this.#access.enter((handle) => {
      const blob = handle.hibernate();
      try {
        return readBlob(blob);
      } finally {
        dispose(blob);
      }
    });
  }

  /** Runs the interpreter's exit handlers, ends the session and releases its resources. */
  async close(): Promise<void> {
    try {
      await this.#access.enter((handle) => handle.close());
    } finally {
      this.#access.drop();
    }
  }

  /** Releases the session's resources without running its exit handlers. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#access.drop();
  }

  async #withFiles<Result>(use: (files: Files) => Result): Promise<Result> {
    return this.#access.enter((handle) => {
      const files = handle.files();
      try {
        return use(files);
      } finally {
        dispose(files);
      }
    });
  }
}
