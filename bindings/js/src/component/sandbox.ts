import type { Session as SessionHandle } from '../../contract/interfaces/glovebox-sandbox-sandbox.js';
import { cancelWord, clocks } from './clocks.ts';
import type { Diagnostic, Execution, FileEntry, Output, Policy, ProviderInfo, Request, Runtime } from './contract.ts';
import { InstanceLostError, SandboxError, isFailure } from './errors.ts';
import { blobOf, dispose, listFiles, readFile } from './files.ts';
import type { Instance, Provider } from './provider.ts';
import { Session } from './session.ts';
import { type Tool, toolsImport } from './tools.ts';

/** How a sandbox is made. */
export interface SandboxOptions {
  /** Functions that scripts may call. Default: none. The closed providers have no tools. */
  tools?: readonly Tool[];
  /**
   * A word of shared memory, of a provider with a clock: as long as another thread sets it to something but 0, what is executed is
   * cancelled.
   */
  cancelWord?: Int32Array;
}

/** How a script is run. */
export interface RunOptions {
  /** `python`, `javascript`, or the name of a runtime that `info` lists. Default: the provider's first. */
  runtime?: string;
  /** What it may do and use. Default: the provider's policy, in which every limit is finite. */
  policy?: Policy;
}

/** How a session is opened. */
export interface OpenOptions extends RunOptions {
  /** What its scripts find in the global variable `context`. Default: no such variable. */
  context?: unknown;
}

/** A sandbox: an instance of a provider, and a new one whenever that has trapped. */
export class Sandbox {
  readonly #provider: Provider;
  readonly #imports: Record<string, unknown>;
  #instance: Promise<Instance> | undefined;
  readonly #sessions = new Map<SessionHandle, string>();

  private constructor(provider: Provider, options: SandboxOptions) {
    this.#provider = provider;
    this.#imports = { ...clocks(options.cancelWord ?? cancelWord()), ...toolsImport(options.tools ?? []) };
  }

  /** See {@link createSandbox}. */
  static async create(provider: Provider, options: SandboxOptions): Promise<Sandbox> {
    const sandbox = new Sandbox(provider, options);
    await sandbox.#current();
    return sandbox;
  }

  /** What the provider is and has. */
  async info(): Promise<ProviderInfo> {
    return this.#enter((instance) => instance.info());
  }

  /** The policy of an execution that asks for none. */
  async defaultPolicy(): Promise<Policy> {
    return this.#enter((instance) => instance.defaultPolicy());
  }

  /** Runs a script in a new interpreter, and drops it. A script that raises or reaches a limit is an execution too. */
  async execute(script: string | Request, options: RunOptions = {}): Promise<Execution> {
    return this.#enter((instance) => instance.execute(runtimeOf(instance, options), requestOf(script), options.policy ?? {}));
  }

  /** As `execute`, with the files that the script left: what is listed, and the contents of all files by their paths. */
  async executeWithFiles(script: string | Request, options: RunOptions = {}): Promise<[Execution, FileEntry[], Map<string, Uint8Array>]> {
    return this.#enter((instance) => {
      const started = instance.start(runtimeOf(instance, options), requestOf(script), options.policy ?? {}, []);
      try {
        const step = started.continue([], undefined);
        // Nobody is asked for answers, and there is no time after which it would be `running`.
        if (step.tag !== 'done') throw new Error(`the provider was to end the script, and says ${step.tag}`);
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

  /** What the language's own parser says about a source: nothing, if it is well-formed. Executes nothing of it. */
  async validate(script: string | Request, options: RunOptions = {}): Promise<Diagnostic[]> {
    return this.#enter((instance) => instance.validate(runtimeOf(instance, options), requestOf(script), options.policy ?? {}));
  }

  /** Opens a session: an interpreter that persists. */
  async open(options: OpenOptions = {}): Promise<Session> {
    const handle = await this.#enter((instance) =>
      this.#keep(instance.Session.open(runtimeOf(instance, options), options.policy ?? {}, contextOf(options))),
    );
    return this.#session(handle);
  }

  /** Makes a session of the bytes that `hibernate` gave, here or elsewhere. They give no right. */
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

  /** Calls into the instance: all calls go through here, so that none enters one that has trapped. */
  async #enter<Result>(call: (instance: Instance) => Result, handle?: SessionHandle, id = ''): Promise<Result> {
    const instance = await this.#current();
    if (handle && !this.#sessions.has(handle)) {
      throw new SandboxError({ tag: 'session-ended', val: `the session \`${id}\` was dropped, or lost with its instance` });
    }
    try {
      return call(instance);
    } catch (error) {
      if (isFailure(error)) throw new SandboxError(error);
      // An argument of another type than declared is found before the instance is entered, and then it still answers.
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
        // It was to be forgotten, so that it is not disposed of when it is collected: that would trap again.
      }
    }
    this.#sessions.clear();
    this.#instance = undefined;
    return new InstanceLostError(sessions, cause);
  }
}

/** A sandbox of this provider. */
export function createSandbox(provider: Provider, options: SandboxOptions = {}): Promise<Sandbox> {
  return Sandbox.create(provider, options);
}

/** What a stream kept, as text. */
export function textOf(output: Output): string {
  return new TextDecoder().decode(output.bytes);
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
  return context === undefined ? {} : { context: JSON.stringify(context) };
}
