// The backend that runs a provider component on the calling thread. `serve.ts` runs it in a worker for another thread.
import type {
  ExecutionHooks,
  Backend,
  BackendSession,
  Diagnostic,
  Entry,
  BackendExecution,
  Input,
  Policy,
  BackendDisplay,
  ShownValue,
} from '../backend.ts';
import { type FailureClass, type GloveboxError, errorOf } from '../errors.ts';
import { parseJson } from '../json.ts';
import { NARROW } from '../options.ts';
import { refuseWaitingTools } from '../policy.ts';
import type { Answer } from '../tools.ts';
import type { Execution, FileEntry, Policy as ContractPolicy, ProviderInfo, Request } from './contract.ts';
import { InstanceLostError, SandboxError } from './errors.ts';
import type { Provider } from './provider.ts';
import { recordOf, snake, succeeded, textOf } from './record.ts';
import { Sandbox } from './sandbox.ts';
import type { Session } from './session.ts';

const CLASSES: Partial<Record<SandboxError['tag'], FailureClass>> = {
  'session-ended': 'SessionError',
  'session-busy': 'SessionError',
  'no-checkpoint': 'SessionError',
  variable: 'SessionError',
  'too-many-sessions': 'SessionError',
  'not-resumable': 'SessionError',
  unavailable: 'UnavailableError',
  'quota-exceeded': 'UnavailableError',
  unsupported: 'UnsupportedError',
  file: 'FilesError',
};

/** Rejects options that only the engine supports. The error names an alternative. */
export function refuse(policy: Policy): void {
  const requested = { workspace: policy.workspace !== undefined, mounts: policy.mounts.length > 0, commit: policy.commit !== 'always' };
  for (const [name, isRequested] of Object.entries(requested)) {
    if (isRequested) {
      const instead = 'pass files and read Run.files instead, or use backend: "native" outside browsers';
      throw errorOf('UnsupportedError', `${name}: a component has no access to host directories; ${instead}`);
    }
  }
  refuseWaitingTools(policy);
  if (policy.metering !== 'fuel') throw errorOf('UnsupportedError', 'metering: a component always counts fuel; remove it, or use backend: "native" outside browsers');
  if (policy.network) throw errorOf('UnsupportedError', 'network: a component has no network; remove it, or use backend: "native" outside browsers');
  if (policy.packages) throw errorOf('UnsupportedError', 'packages: not supported with a component; remove it, or use backend: "native" outside browsers');
}

/** Converts a provider's errors to this package's errors. */
async function mapErrors<Result>(ask: Promise<Result>, inSession = false): Promise<Result> {
  try {
    return await ask;
  } catch (error) {
    if (error instanceof InstanceLostError) throw errorOf(inSession ? 'SessionLostError' : 'UnavailableError', error.message, error);
    if (error instanceof SandboxError) throw refused(error);
    throw error;
  }
}

function refused(error: SandboxError): GloveboxError {
  return errorOf(CLASSES[error.tag] ?? 'PolicyError', error.message, error);
}

function requestOf(input: Input): Request {
  const { source, name, kind, stdin, context, timeoutMs } = input;
  return {
    source,
    ...(name !== undefined && { name }),
    ...(kind && { kind }),
    ...(stdin && { stdin }),
    ...(context !== undefined && { context }),
    ...(timeoutMs !== undefined && { deadlineMs: BigInt(timeoutMs) }),
  };
}

function entriesOf(entries: FileEntry[]): Entry[] {
  return entries.map(({ path, kind, sizeBytes, modifiedNs }) => ({ path, kind, sizeBytes, modifiedNs }));
}

function noId(id: string | undefined): void {
  if (id !== undefined) throw errorOf('UnsupportedError', 'id: a component chooses its sessions\' IDs; remove it, or use backend: "native" outside browsers');
}

/** Passes the output to the listener after the script has ended, because a component does not stream output. */
export function passOutput(executed: BackendExecution, { output }: Pick<ExecutionHooks, 'output'>): void {
  for (const [isStderr, bytes] of [[false, executed.stdoutBytes], [true, executed.stderrBytes]] as const) {
    if (bytes.length > 0) output?.(isStderr, bytes);
  }
}

/** An execution's result in a form that can be sent to another thread. */
export interface Facts {
  ok: boolean;
  stdout: string;
  stderr: string;
  stdoutBytes: Uint8Array;
  stderrBytes: Uint8Array;
  fuelConsumed: bigint;
  value: ShownValue | undefined;
  displays: readonly BackendDisplay[];
  record: string;
  /** The files that the script left. Absent in a session, because files are read from the session itself. */
  files?: { entries: Entry[]; contents: Map<string, Uint8Array> };
}

function factsOf(execution: Execution, files?: Facts['files']): Facts {
  return {
    ok: succeeded(execution),
    stdout: textOf(execution.stdout),
    stderr: textOf(execution.stderr),
    stdoutBytes: execution.stdout.bytes,
    stderrBytes: execution.stderr.bytes,
    fuelConsumed: execution.fuelConsumed,
    value: execution.value && { repr: execution.value.repr, json: execution.value.json },
    displays: execution.displays.map(({ isResult, forms }) => ({ isResult, forms: forms.map(({ mediaType, data }) => [mediaType, data] as const) })),
    record: recordOf(execution),
    ...(files && { files }),
  };
}

/** Creates an execution from its facts. In a session, the execution reads the session's files. */
export function executionOf(facts: Facts, session?: Pick<BackendSession, 'listFiles' | 'readFile'>): BackendExecution {
  const { ok, stdout, stderr, stdoutBytes, stderrBytes, fuelConsumed, value, displays, files } = facts;
  return {
    ok,
    stdout,
    stderr,
    stdoutBytes,
    stderrBytes,
    fuelConsumed,
    value,
    displays,
    json: () => facts.record,
    async listFiles(pattern) {
      if (session) return session.listFiles(pattern);
      if (pattern !== '**') {
        const why = 'this backend supports patterns only in sessions';
        throw errorOf('UnsupportedError', `pattern: ${why}; remove it, or use backend: "native" outside browsers`);
      }
      return files?.entries ?? [];
    },
    async readFile(path) {
      if (session) return session.readFile(path);
      const contents = files?.contents.get(normal(path));
      if (!contents) throw errorOf('FilesError', `the file \`${path}\` does not exist`);
      return contents;
    },
  };
}

/** Normalizes a path: `./a//b` becomes `a/b`. */
function normal(path: string): string {
  return path.split('/').filter((part) => part !== '' && part !== '.').join('/');
}

/** The arguments for opening a component backend. */
export interface Guest {
  provider: Provider;
  language: string;
  policy: Policy;
  answer: (tool: number, parameters: string) => Answer;
  cancelWord?: Int32Array;
}

/** Creates a sandbox from a provider. */
export async function openComponent({ provider, language, policy, answer, cancelWord }: Guest): Promise<ComponentBackend> {
  refuse(policy);
  const tools = policy.tools.map(({ name, description, schema }, index) => ({
    name,
    description,
    argumentsSchema: parseJson(schema) as object,
    answer: (parameters: string) => answer(index, parameters),
    call: () => undefined,
  }));
  const sandbox = await mapErrors(Sandbox.create(provider, { tools, ...(cancelWord && { cancelWord }) }));
  const info = await mapErrors(sandbox.info());
  const runtime = info.runtimes.find((each) => each.name === language || each.language === language);
  if (!runtime) {
    const names = info.runtimes.map((each) => each.name).join(', ');
    throw errorOf('PolicyError', `the component has no runtime \`${language}\`; it has ${names}`);
  }
  if (tools.length > 0 && !info.features.tools) {
    throw errorOf('UnsupportedError', 'tools: this component does not import tools; load one that does, such as `glovebox-python`');
  }
  const backend = new ComponentBackend(sandbox, runtime, policy);
  // Like the engine, detects an invalid policy when the sandbox is opened, rather than at the first execution.
  await backend.validate({ source: '', name: undefined, kind: undefined, stdin: undefined, context: undefined, timeoutMs: undefined });
  return backend;
}

/** A sandbox on the calling thread. */
export class ComponentBackend {
  readonly language: 'python' | 'javascript';
  readonly runtimeName: string;
  readonly version: string | undefined;
  readonly #sandbox: Sandbox;
  readonly #terms: { runtime: string; policy: ContractPolicy };
  readonly #policy: Policy;

  constructor(sandbox: Sandbox, runtime: ProviderInfo['runtimes'][number], policy: Policy) {
    this.#sandbox = sandbox;
    this.#policy = policy;
    this.language = runtime.language;
    this.runtimeName = runtime.name;
    this.version = runtime.version;
    this.#terms = { runtime: runtime.name, policy: {} };
  }

  /** Returns the runtime and the policy for an execution, a check or a session. */
  #now(): { runtime: string; policy: ContractPolicy } {
    const { limits, clockNs, seed, args, env, autoPersistGlobals, checkpoints, onUnwind } = this.#policy;
    // A provider has no entropy source, so a policy without a seed gets a random one.
    const random = (): bigint => crypto.getRandomValues(new BigUint64Array(1))[0] ?? 0n;
    const every = typeof checkpoints === 'bigint' ? ({ tag: 'every', val: Number(checkpoints) } as const) : checkpoints && ({ tag: checkpoints } as const);
    const narrow = Object.entries(limits).map(([name, value]) => [name, NARROW.has(name) ? Number(value) : value]);
    const policy: ContractPolicy = {
      limits: Object.fromEntries(narrow) as NonNullable<ContractPolicy['limits']>,
      ...(clockNs !== undefined && { clock: { tag: 'fixed', val: clockNs } as const }),
      entropy: { tag: 'seeded', val: seed ?? random() },
      ...(args.length > 0 && { args }),
      ...(env.length > 0 && { env }),
      ...(autoPersistGlobals && { autoPersistGlobals }),
      session: { ...(every && { checkpoints: every }), ...(onUnwind && { onUnwind }) },
    };
    return { ...this.#terms, policy };
  }

  async execute(input: Input): Promise<Facts> {
    const files = this.#policy.files.map(([path, bytes]) => ({ path, bytes }));
    const request = { ...requestOf(input), ...(files.length > 0 && { files }) };
    const [execution, entries, contents] = await mapErrors(this.#sandbox.executeWithFiles(request, this.#now()));
    return factsOf(execution, { entries: entriesOf(entries), contents });
  }

  /** Returns the parser's diagnostics for a source. */
  async validate(input: Input): Promise<Diagnostic[]> {
    const diagnostics = await mapErrors(this.#sandbox.validate(requestOf(input), this.#now()));
    return diagnostics.map(({ line, column, message }) => ({ line: Number(line), column: Number(column), message }));
  }

  async session(id: string | undefined, context: string | undefined): Promise<GuestSession> {
    noId(id);
    const given = context === undefined ? {} : { context: parseJson(context) as unknown };
    const session = new GuestSession(await mapErrors(this.#sandbox.open({ ...this.#now(), ...given })));
    for (const [path, contents] of this.#policy.files) await session.writeFile(path, contents);
    return session;
  }

  /** Restores a session from its hibernated bytes. */
  async resume(state: Uint8Array, id: string | undefined): Promise<GuestSession> {
    noId(id);
    return new GuestSession(await mapErrors(this.#sandbox.resume(state, this.#now())));
  }
}

/** A session on the calling thread. */
export class GuestSession {
  readonly #session: Session;
  ended: string | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  get id(): string {
    return this.#session.id;
  }

  async execute(input: Input): Promise<Facts> {
    const facts = factsOf(await mapErrors(this.#session.execute(requestOf(input)), true));
    this.ended = (await this.#session.info().catch(() => undefined))?.ended;
    return facts;
  }

  async getVariable(name: string): Promise<ShownValue | undefined> {
    const value = await mapErrors(this.#session.getVariable(name), true);
    return value && { repr: value.repr, json: value.json };
  }

  async setVariable(name: string, json: string): Promise<void> {
    await mapErrors(this.#session.setVariable(name, parseJson(json)), true);
  }

  async listFiles(pattern: string): Promise<Entry[]> {
    return entriesOf(await mapErrors(this.#session.listFiles(pattern), true));
  }

  async readFile(path: string): Promise<Uint8Array> {
    return mapErrors(this.#session.readFile(path), true);
  }

  async writeFile(path: string, contents: Uint8Array): Promise<void> {
    await mapErrors(this.#session.writeFile(path, contents), true);
  }

  async deleteFile(path: string, recursive: boolean): Promise<void> {
    await mapErrors(this.#session.deleteFile(path, { recursive }), true);
  }

  async fork(id: string | undefined, context: string | undefined): Promise<GuestSession> {
    noId(id);
    const fork = new GuestSession(await mapErrors(this.#session.fork(), true));
    if (context !== undefined) await fork.setVariable('context', context);
    return fork;
  }

  async checkpoint(): Promise<bigint> {
    return mapErrors(this.#session.checkpoint(), true);
  }

  async checkpoints(): Promise<string> {
    return JSON.stringify(snake(await mapErrors(this.#session.checkpoints(), true)));
  }

  async undo(checkpoint: bigint | undefined): Promise<bigint> {
    if (checkpoint === undefined) return mapErrors(this.#session.undo(), true);
    await mapErrors(this.#session.undoTo(checkpoint), true);
    return checkpoint;
  }

  async hibernate(): Promise<Uint8Array> {
    return mapErrors(this.#session.hibernate(), true);
  }

  async info(): Promise<string> {
    return JSON.stringify(snake(await mapErrors(this.#session.info(), true)));
  }

  async close(): Promise<void> {
    if (this.ended !== undefined) return;
    this.ended = 'the session is closed; open a new one';
    try {
      await mapErrors(this.#session.close(), true);
    } catch (error) {
      if ((error as Error).name !== 'SessionError') throw error;
    }
  }
}

/**
 * Creates a backend that runs a component on the calling thread. A script blocks the thread, so it can only be
 * cancelled before it starts.
 */
export function direct(backend: ComponentBackend): Backend {
  const of = async (facts: Promise<Facts>, hooks: ExecutionHooks, session?: BackendSession): Promise<BackendExecution> => {
    const executed = executionOf(await facts, session);
    passOutput(executed, hooks);
    return executed;
  };
  const kept = (session: GuestSession): BackendSession => {
    const own: BackendSession = {
      get id() {
        return session.id;
      },
      get ended() {
        return session.ended;
      },
      execute: (input, hooks) => of(session.execute(input), hooks, own),
      getVariable: (name) => session.getVariable(name),
      setVariable: (name, json) => session.setVariable(name, json),
      listFiles: (pattern) => session.listFiles(pattern),
      readFile: (path) => session.readFile(path),
      writeFile: (path, contents) => session.writeFile(path, contents),
      deleteFile: (path, recursive) => session.deleteFile(path, recursive),
      fork: async (id, context) => kept(await session.fork(id, context)),
      checkpoint: () => session.checkpoint(),
      checkpoints: () => session.checkpoints(),
      undo: (checkpoint) => session.undo(checkpoint),
      hibernate: () => session.hibernate(),
      info: () => session.info(),
      close: () => session.close(),
    };
    return own;
  };
  return {
    language: backend.language,
    runtimeName: backend.runtimeName,
    version: backend.version,
    execute: (input, hooks) => of(backend.execute(input), hooks),
    validate: (input) => backend.validate(input),
    session: async (id, context) => kept(await backend.session(id, context)),
    resume: async (state, id) => kept(await backend.resume(state, id)),
    close: async () => undefined,
  };
}
