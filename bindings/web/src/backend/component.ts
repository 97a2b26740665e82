// A backend without a server, which runs the provider component in a worker of this page.
import type { Sandbox, SandboxOptions, Session } from 'glovebox-sandbox';
import type { Allowed, Backend, Checkpoint, Done, FileInfo, Info, Piece, RuntimeLanguage, Script, SessionInfo } from './backend.ts';
import { Problem } from './problem.ts';

/** The exports of the npm package that the page uses. */
export interface Package {
  createSandbox(options: SandboxOptions): Promise<Sandbox>;
}

/** The default limits of every script. */
const LIMITS: Allowed = { fuel: 400_000_000_000, timeoutMs: 10_000, memoryBytes: 128 << 20 };
/** Maximum size of the files that the page keeps from a run, in bytes. */
const MAX_FILES_BYTES = 32 << 20;

interface Open {
  session: Session;
  language: RuntimeLanguage;
  executions: number;
}

/** A backend that runs the provider component in workers. */
export class ComponentBackend implements Backend {
  readonly #package: Package;
  /** The sandboxes of sessions. A session ends with its worker. */
  readonly #sandboxes = new Map<RuntimeLanguage, Promise<Sandbox>>();
  /**
   * The sandboxes for scripts outside sessions, each with its limits. They have their own workers, because stopping a
   * script may terminate the worker.
   */
  readonly #fresh = new Map<RuntimeLanguage, { key: string; sandbox: Promise<Sandbox> }>();
  readonly #open = new Map<string, Open>();

  constructor(of: Package) {
    this.#package = of;
  }

  async info(): Promise<Info> {
    return {
      where: 'Runs in this browser',
      runtimes: [
        // The versions are known only after the interpreters have been loaded.
        { language: 'python' },
        { language: 'javascript' },
      ],
      languages: ['python', 'javascript'],
      limits: LIMITS,
      streams: false,
      packages: false,
    };
  }

  async run(script: Script, onPiece: (piece: Piece) => void, signal: AbortSignal): Promise<Done> {
    const { source, stdin } = script;
    const options = {
      ...(stdin !== '' && { stdin }),
      onStdout: (text: string) => onPiece({ stream: 'stdout', text }),
      onStderr: (text: string) => onPiece({ stream: 'stderr', text }),
    };
    if (script.session !== undefined) {
      const open = this.#session(script.session);
      const run = await this.#cancellable(await this.#sandbox(open.language), signal, () => open.session.execute(source, options));
      open.executions = (await open.session.info()).executions;
      return { execution: run.toJSON() as Done['execution'], filesLeftOut: 0 };
    }
    const sandbox = await this.#freshSandbox(script.language === 'python' ? 'python' : 'javascript', script.limits);
    // Each script runs in a new session, because a session accepts files. A new sandbox with these files would load the
    // interpreter again.
    const session = await sandbox.session();
    try {
      for (const [path, bytes] of script.files) await session.files.write(path, bytes);
      const run = await this.#cancellable(sandbox, signal, () => session.execute(source, options));
      return { execution: { ...(run.toJSON() as Done['execution']), value: null }, ...(await filesOf(session)) };
    } finally {
      await session.close().catch(() => undefined);
    }
  }

  async sessions(): Promise<SessionInfo[]> {
    // Removes the sessions that were lost with a terminated worker.
    for (const [id, { session }] of this.#open) if (session.ended !== undefined) this.#open.delete(id);
    return [...this.#open.keys()].sort().map((id) => this.#described(id));
  }

  async open(id: string, language: RuntimeLanguage): Promise<SessionInfo> {
    this.#mustBeFree(id);
    const session = await (await this.#sandbox(language)).session();
    this.#open.set(id, { session, language, executions: 0 });
    return this.#described(id);
  }

  async fork(id: string, as: string): Promise<SessionInfo> {
    this.#mustBeFree(as);
    const { session, language, executions } = this.#session(id);
    this.#open.set(as, { session: await session.fork(), language, executions });
    return this.#described(as);
  }

  async close(id: string): Promise<void> {
    const { session } = this.#session(id);
    this.#open.delete(id);
    await session.close();
  }

  async checkpoint(id: string): Promise<void> {
    await this.#session(id).session.checkpoint();
  }

  async checkpoints(id: string): Promise<Checkpoint[]> {
    return this.#session(id).session.checkpoints();
  }

  async undo(id: string, checkpoint: number | undefined): Promise<void> {
    const open = this.#session(id);
    await open.session.undo(checkpoint);
    open.executions = (await open.session.info()).executions;
  }

  async files(id: string): Promise<FileInfo[]> {
    const entries = await this.#session(id).session.files.list();
    return entries.filter(({ kind }) => kind === 'file').map(({ path, sizeBytes }) => ({ path, sizeBytes }));
  }

  readFile(id: string, path: string): Promise<Uint8Array> {
    return this.#session(id).session.files.read(path);
  }

  writeFile(id: string, path: string, contents: Uint8Array): Promise<void> {
    return this.#session(id).session.files.write(path, contents);
  }

  deleteFile(id: string, path: string): Promise<void> {
    return this.#session(id).session.files.delete(path);
  }

  /** Returns the sandbox for a language's sessions. */
  #sandbox(language: RuntimeLanguage): Promise<Sandbox> {
    const known = this.#sandboxes.get(language);
    if (known) return known;
    const made = this.#package.createSandbox({ language, backend: 'component', limits: LIMITS });
    this.#sandboxes.set(language, made);
    // Removes a failed sandbox, so that the next request creates a new one.
    made.catch(() => this.#sandboxes.delete(language));
    return made;
  }

  /** Returns the sandbox for a language's new interpreters with these limits. */
  #freshSandbox(language: RuntimeLanguage, limits: Partial<Allowed>): Promise<Sandbox> {
    const key = JSON.stringify(limits);
    const known = this.#fresh.get(language);
    if (known?.key === key) return known.sandbox;
    void known?.sandbox.then((old) => old.close()).catch(() => undefined);
    const sandbox = this.#package.createSandbox({ language, backend: 'component', limits: { ...LIMITS, ...limits } });
    this.#fresh.set(language, { key, sandbox });
    sandbox.catch(() => this.#fresh.delete(language));
    return sandbox;
  }

  async #cancellable<Result>(sandbox: Sandbox, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    const cancel = (): void => sandbox.cancel();
    signal.addEventListener('abort', cancel);
    try {
      signal.throwIfAborted();
      return await work();
    } catch (error) {
      // Replaces the error of a worker that the cancellation has terminated.
      if (signal.aborted) throw new Problem('cancelled', 'Stopped', 'The script was stopped.');
      throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  }

  #session(id: string): Open {
    const open = this.#open.get(id);
    if (!open) throw new Problem('refused', 'No such session', `The session \`${id}\` no longer exists in this page.`);
    return open;
  }

  #mustBeFree(id: string): void {
    if (this.#open.has(id)) throw new Problem('conflict', 'Conflict', `The session \`${id}\` already exists.`);
  }

  #described(id: string): SessionInfo {
    const { language, executions } = this.#session(id);
    return { id, language, executions };
  }
}

async function filesOf(session: Session): Promise<{ files: Map<string, Uint8Array>; filesLeftOut: number }> {
  const files = new Map<string, Uint8Array>();
  let [bytes, filesLeftOut] = [0, 0];
  if (session.ended !== undefined) return { files, filesLeftOut };
  for (const { path, kind, sizeBytes } of await session.files.list()) {
    if (kind !== 'file') continue;
    bytes += sizeBytes;
    if (bytes > MAX_FILES_BYTES) filesLeftOut += 1;
    else files.set(path, await session.files.read(path));
  }
  return { files, filesLeftOut };
}
