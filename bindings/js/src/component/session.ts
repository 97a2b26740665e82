import type { Files, Session as Handle } from '../../contract/interfaces/glovebox-sandbox-sandbox.js';
import type { CheckpointInfo, Execution, FileEntry, GuestValue, Request, SessionInfo } from './contract.ts';
import { dispose, listFiles, readBlob, readFile } from './files.ts';
import type { Instance } from './provider.ts';

/** What a session may do with the sandbox that it is of. */
export interface Access {
  enter<Result>(call: (handle: Handle, instance: Instance) => Result): Promise<Result>;
  fork(): Promise<Session>;
  drop(): void;
}

/** An interpreter that persists between executions: variables, functions, imports and files live on. */
export class Session implements AsyncDisposable {
  /** Its id: chosen by the provider, and no secret. */
  readonly id: string;
  readonly #access: Access;

  constructor(id: string, access: Access) {
    this.id = id;
    this.#access = access;
  }

  /** What it is and holds. */
  async info(): Promise<SessionInfo> {
    return this.#access.enter((handle) => handle.info());
  }

  /** Runs a script in the session's interpreter. */
  async execute(script: string | Request): Promise<Execution> {
    return this.#access.enter((handle) => handle.execute(typeof script === 'string' ? { source: script } : script));
  }

  /** A global variable; `undefined` where there is none of this name. */
  async getVariable(name: string): Promise<GuestValue | undefined> {
    return this.#access.enter((handle) => handle.getVariable(name));
  }

  /** Sets a global variable to a value that JSON has. */
  async setVariable(name: string, value: unknown): Promise<void> {
    return this.#access.enter((handle) => handle.setVariable(name, JSON.stringify(value ?? null)));
  }

  /** What lies in the workspace: by default everything. */
  async listFiles(pattern = '**'): Promise<FileEntry[]> {
    return this.#withFiles((files) => listFiles(files, pattern));
  }

  /** All of a file. */
  async readFile(path: string): Promise<Uint8Array> {
    return this.#withFiles((files) => readFile(files, path));
  }

  /** Writes a file in place of one that is there, and makes the directories above it. */
  async writeFile(path: string, contents: Uint8Array | string): Promise<void> {
    const bytes = typeof contents === 'string' ? new TextEncoder().encode(contents) : contents;
    return this.#access.enter((handle) => handle.writeFile(path, bytes, 'replace'));
  }

  /** Removes a file, a link or a directory, with all that is below it if `recursive`. */
  async deleteFile(path: string, { recursive = false } = {}): Promise<void> {
    return this.#access.enter((handle) => handle.deleteFile(path, recursive));
  }

  /** A second session of this one: neither sees what the other does from then on. */
  async fork(): Promise<Session> {
    return this.#access.fork();
  }

  /** Saves the state, to come back to with `undoTo`. */
  async checkpoint(): Promise<bigint> {
    return this.#access.enter((handle) => handle.checkpoint());
  }

  /** The states that it can be set back to, oldest first. */
  async checkpoints(): Promise<CheckpointInfo[]> {
    return this.#access.enter((handle) => handle.checkpoints());
  }

  /** Restores the last checkpoint that differs from what the session is now, and says which it was. */
  async undo(): Promise<bigint> {
    return this.#access.enter((handle) => handle.undo());
  }

  /** Restores a checkpoint. */
  async undoTo(checkpoint: bigint): Promise<void> {
    return this.#access.enter((handle) => handle.undoTo(checkpoint));
  }

  /** The session as bytes, for `Sandbox.resume` with any provider that has the same runtime. */
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

  /** Runs the interpreter's exit handlers, ends the session and gives back what it holds. */
  async close(): Promise<void> {
    try {
      await this.#access.enter((handle) => handle.close());
    } finally {
      this.#access.drop();
    }
  }

  /** Gives back what the session holds, without running its exit handlers. */
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
