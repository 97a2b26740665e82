import type { Session as SessionHandle } from '../../contract/interfaces/glovebox-sandbox-sandbox.js';
import { stringifyJson } from '../json.ts';
import { cancelWord, clocks } from './clocks.ts';
import type { Diagnostic, Execution, FileEntry, Policy, ProviderInfo, Request, Runtime } from './contract.ts';
import { InstanceLostError, SandboxError, isFailure } from './errors.ts';
import { blobOf, dispose, listFiles, readFile } from './files.ts';
import type { Instance, Provider } from './provider.ts';
import { Session } from './session.ts';
import { type Tool, toolsImport } from './tools.ts';

/** The options of a sandbox. */
export interface SandboxOptions {
  /** Functions that scripts can call. Closed providers support no tools. Default: none. */
  tools?: readonly Tool[];
  /**
   * A word of shared memory that cancels the current execution while it is nonzero. Another thread can set it. Requires
   * a provider with a clock.
   */
  cancelWord?: Int32Array;
}

/** The options of an execution. */
export interface RunOptions {
  /** `python`, `javascript`, or the name of a runtime that `info` lists. Default: the provider's first runtime. */
  runtime?: string;
  /** The permissions and limits of the script. Default: the provider's policy, in which every limit is finite. */
  policy?: Policy;
}

/** The options of a session. */
export interface OpenOptions extends RunOptions {
  /** The value of the global variable `context`, in which bigints become integers. Default: no such variable. */
  context?: unknown;
}

/** A sandbox: an instance of a provider. After a trap, the next call creates a new instance. */
export class Sandbox {
  readonly #provider: Provider;
  readonly #imports: Record<string, unknown>;
  #instance: Promise<Instance> | undefined;
  readonly #sessions = new Map<SessionHandle, string>();

  private constructor(provider: Provider, options: SandboxOptions) {
    this.#provider = provider;
    this.#imports = { ...clocks(options.cancelWord ?? cancelWord()), ...toolsImport(options.tools ?? []) };
  }

  /** Use {@link createSandbox} to create a sandbox. */
  static async create(provider: Provider, options: SandboxOptions): Promise<Sandbox> {
    const sandbox = new Sandbox(provider, options);
    await sandbox.#current();
    return sandbox;
  }

  /** Returns the provider's description. */
  async info(): Promise<ProviderInfo> {
    return this.#enter((instance) => instance.info());
  }

  /** Returns the policy that applies when a request's policy is empty. */
  async defaultPolicy(): Promise<Policy> {
    return this.#enter((instance) => instance.defaultPolicy());
  }

  /**
   * Runs a script in a new interpreter and discards the interpreter. Also returns an execution if the script raises an
   * exception or exceeds a limit.
   */
  async execute(script: string | Request, options: RunOptions = {}): Promise<Execution> {
    return this.#enter((instance) => instance.execute(runtimeOf(instance, options), requestOf(script), options.policy ?? {}));
  }

  /**
   * Like `execute`, but also returns the files that the script left: their entries, and the contents of all files by
   * path.
   */
  async executeWithFiles(script: string | Request, options: RunOptions = {}): Promise<[Execution, FileEntry[], Map<string, Uint8Array>]> {
    return this.#enter((instance) => {
      const started = instance.start(runtimeOf(instance, options), requestOf(script), options.policy ?? {}, []);
      try {
        const step = started.continue([], undefined);
        // The caller answers no tools and sets no timeout for the step, so the step cannot be `needs-tools` or
        // `running`.
        if (step.tag !== 'done') throw new Error(`expected the provider to end the script, got ${step.tag}`);
        const files = started.files();
        try {
          const entries = listFiles(files, '**');
          const plain = entries.filter(({ kind }) => kind === 'file');
          return [step.val, entries, new Map(plain.map(({ path }) => [path, readFile(files, path)]))];
        } finally {
          dispose(files);
        }
      } finally {
        dispose(started);
      }
    });
  }

  /**
   * Parses a source with the language's own parser and returns its diagnostics: an empty list if the source is
   * well-formed. Executes nothing.
   */
  async validate(script: string | Request, options: RunOptions = {}): Promise<Diagnostic[]> {
    return this.#enter((instance) => instance.validate(runtimeOf(instance, options), requestOf(script), options.policy ?? {}));
  }

  /** Opens a session: an interpreter that persists between executions. */
  async open(options: OpenOptions = {}): Promise<Session> {
    const handle = await this.#enter((instance) =>
      this.#keep(instance.Session.open(runtimeOf(instance, options), options.policy ?? {}, contextOf(options))),
    );
    return this.#session(handle);
  }

  /**
   * Restores a session from the bytes that `hibernate` returned, in this or another process. The bytes grant no
   * permissions.
   */
  async resume(state: Uint8Array, options: OpenOptions = {}): Promise<Session> {
    const handle = await this.#enter((instance) => {
      const blob = blobOf(instance, state);
      try {
        const { Session } = instance;
        return this.#keep(Session.resume(runtimeOf(instance, options), blob, options.policy ?? {}, contextOf(options)));
      } finally {
        dispose(blob);
      }
    });
    return this.#session(handle);
  }

  #keep(handle: SessionHandle): SessionHandle {
    this.#sessions.set(handle, handle.id());
    return handle;
  }

  #session(handle: SessionHandle): Session {
    const id = this.#sessions.get(handle) ?? '';
    return new Session(id, {
      enter: (call) => this.#enter((instance) => call(handle, instance), handle, id),
      fork: async () => this.#session(await this.#enter(() => this.#keep(handle.fork()), handle, id)),
      drop: () => {
        if (this.#sessions.delete(handle)) dispose(handle);
      },
    });
  }

  #current(): Promise<Instance> {
    this.#instance ??= this.#provider.instantiate(this.#imports).catch((error: unknown) => {
      this.#instance = undefined;
      throw error;
    });
    return this.#instance;
  }

  /** Calls into the instance. All calls use this method, so that no call enters an instance that has trapped. */
  async #enter<Result>(call: (instance: Instance) => Result, handle?: SessionHandle, id = ''): Promise<Result> {
    const instance = await this.#current();
    if (handle && !this.#sessions.has(handle)) {
      throw new SandboxError({ tag: 'session-ended', val: `the session \`${id}\` is closed, or was lost with its instance; open a new one` });
    }
    try {
      return call(instance);
    } catch (error) {
      if (isFailure(error)) throw new SandboxError(error);
      // An argument of the wrong type is detected before the instance is entered, so the instance still answers.
      if (error instanceof TypeError && answers(instance)) throw error;
      throw this.#lose(error);
    }
  }

  #lose(cause: unknown): InstanceLostError {
    const sessions = [...this.#sessions.values()];
    for (const handle of this.#sessions.keys()) {
      try {
        dispose(handle);
      } catch {
        // The failed attempt makes jco forget the handle. Otherwise, the garbage collector would dispose of the handle
        // later and trap again.
      }
    }
    this.#sessions.clear();
    this.#instance = undefined;
    return new InstanceLostError(sessions, cause);
  }
}

/** Creates a sandbox from a provider. */
export function createSandbox(provider: Provider, options: SandboxOptions = {}): Promise<Sandbox> {
  return Sandbox.create(provider, options);
}

function answers(instance: Instance): boolean {
  try {
    instance.info();
    return true;
  } catch {
    return false;
  }
}

function requestOf(script: string | Request): Request {
  return typeof script === 'string' ? { source: script } : script;
}

function runtimeOf(instance: Instance, { runtime }: RunOptions): Runtime {
  const name = runtime ?? instance.info().runtimes[0]?.name ?? '';
  return name === 'python' || name === 'javascript' ? { tag: name } : { tag: 'named', val: name };
}

function contextOf({ context }: OpenOptions): { context?: string } {
  return context === undefined ? {} : { context: stringifyJson(context) };
}
