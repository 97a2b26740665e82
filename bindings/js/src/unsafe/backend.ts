/// <reference types="node" />
// A client of an ordinary Python process, which runs scripts WITHOUT a sandbox.
import type { ExecutionHooks, Backend, BackendSession, Diagnostic, BackendExecution, Host, Input, Policy, ShownValue } from '../backend.ts';
import { type FailureClass, type GloveboxError, errorOf } from '../errors.ts';
import { parseJson, stringifyParsedJson } from '../json.ts';
import { type ExecutionFiles, WITHOUT_RESULT, RecordExecution, closed, encoded, shownValue } from '../record.ts';
import { type Answers, type Asking, type Connection, RpcError } from './rpc.ts';

const CLASSES: Record<string, FailureClass> = {
  'not-initialized': 'SessionError',
  unsupported: 'UnsupportedError',
};
const CANCELLED = -32800;

/** Returns the handler of requests from the other process: the tool calls of its scripts. */
export function answersOf(policy: Policy, host: Host): Answers {
  return async (method, parameters, signal) => {
    const index = method === 'tool' ? policy.tools.findIndex(({ name }) => name === parameters.name) : -1;
    if (index < 0) return ['failed', `unknown tool \`${parameters.name ?? method}\`; call a registered tool`] as const;
    return host.answer(index, stringifyParsedJson(parameters.arguments ?? {}), signal);
  };
}

/** Opens a sandbox over a connection to the Python process. */
export async function openPython(connection: Connection, policy: Policy): Promise<Backend> {
  const { timeoutMs } = policy.limits;
  const requested = {
    // The timeout is the only limit that is enforced without a sandbox.
    policy: { limits: timeoutMs === undefined ? {} : { timeout_ms: Number(timeoutMs) } },
    tools: policy.tools.map(({ name }) => ({ name })),
  };
  const open = (more: object): Promise<Opened> => mapErrors(connection.call('initialize', { ...requested, ...more }));
  try {
    return new PythonBackend(connection, await open({}), open);
  } catch (error) {
    connection.close(error as Error);
    throw error;
  }
}

interface Opened {
  session: string;
  runtime: string;
  version: string | null;
}

/** Converts errors of the Python process to this package's errors. */
async function mapErrors<Result>(pending: Promise<Result>): Promise<Result> {
  try {
    return await pending;
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    throw errorOf(CLASSES[error.reason] ?? 'PolicyError', error.message, error);
  }
}

/** How to run scripts that wait for answers. */
export const WITH_SANDBOX = 'without unsafeNative, so that backend: "native" is the engine, or with backend: "daemon"';

const CANNOT_WAIT = `scripts cannot wait for answers or be suspended without a sandbox; run them ${WITH_SANDBOX}`;

function unsupported(feature: string): GloveboxError {
  return errorOf('UnsupportedError', `${feature}: not supported without a sandbox; remove unsafeNative`);
}

function noId(id: string | undefined): void {
  if (id !== undefined) throw unsupported('id');
}

function paramsOf({ source, name, kind, stdin, context, timeoutMs }: Input): object {
  return {
    code: source,
    ...(name !== undefined && { name }),
    ...(kind && { kind }),
    ...(stdin && { stdin: encoded(stdin) }),
    ...(context !== undefined && { context: parseJson(context) }),
    ...(timeoutMs !== undefined && { timeout_ms: timeoutMs }),
  };
}

async function execute(connection: Connection, params: object, { cancel, output }: ExecutionHooks): Promise<BackendExecution> {
  const asking: Asking = {
    cancel,
    onOutput: output && ((stream, text) => output(stream === 'stderr', new TextEncoder().encode(text))),
  };
  try {
    return new RecordExecution(await connection.call('execute', { ...params, stream: output !== undefined }, asking), NO_FILES);
  } catch (error) {
    if (error instanceof RpcError && error.code === CANCELLED) return new RecordExecution(WITHOUT_RESULT, NO_FILES);
    return mapErrors(Promise.reject(error));
  }
}

/** Returns a method that always fails, because a feature is not supported without a sandbox. */
function refused(feature: string): () => Promise<never> {
  return async () => {
    throw unsupported(feature);
  };
}

/** Rejects access to files. Scripts run in a host directory, which the embedding program can read itself. */
const NO_FILES: ExecutionFiles = { listFiles: refused('files'), readFile: refused('files') };

class PythonBackend implements Backend {
  readonly #connection: Connection;
  readonly #session: string;
  readonly #open: (more: object) => Promise<Opened>;
  readonly language = 'python';
  readonly cannotWait = CANNOT_WAIT;
  readonly resume = refused('resume');
  readonly runtimeName: string;
  readonly version: string | undefined;

  constructor(connection: Connection, opened: Opened, open: (more: object) => Promise<Opened>) {
    this.#connection = connection;
    this.#session = opened.session;
    this.#open = open;
    this.runtimeName = opened.runtime;
    this.version = opened.version ?? undefined;
  }

  execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
    return execute(this.#connection, { session: this.#session, ...paramsOf(input), fresh: true }, hooks);
  }

  async validate(input: Input): Promise<Diagnostic[]> {
    return (await mapErrors(this.#connection.call('validate', { session: this.#session, ...paramsOf(input) }))).diagnostics;
  }

  async session(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    noId(id);
    const opened = await this.#open(context === undefined ? {} : { context: parseJson(context) });
    return new PythonSession(this.#connection, opened.session);
  }

  async close(): Promise<void> {
    this.#connection.close(errorOf('SessionLostError', 'the sandbox was closed together with its sessions'));
  }
}

class PythonSession implements BackendSession {
  readonly #connection: Connection;
  readonly id: string;
  readonly cannotWait = CANNOT_WAIT;
  readonly listFiles = refused('files');
  readonly readFile = refused('files');
  readonly writeFile = refused('files');
  readonly deleteFile = refused('files');
  readonly fork = refused('fork');
  readonly checkpoint = refused('checkpoint');
  readonly checkpoints = refused('checkpoints');
  readonly undo = refused('undo');
  readonly hibernate = refused('hibernate');
  ended: string | undefined;

  constructor(connection: Connection, id: string) {
    this.#connection = connection;
    this.id = id;
  }

  async #ask(method: string, params: object = {}): Promise<any> {
    if (this.ended !== undefined) throw errorOf('SessionError', this.ended);
    return mapErrors(this.#connection.call(method, { session: this.id, ...params }));
  }

  async execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
    if (this.ended !== undefined) throw errorOf('SessionError', this.ended);
    return execute(this.#connection, { session: this.id, ...paramsOf(input) }, hooks);
  }

  async getVariable(name: string): Promise<ShownValue | undefined> {
    const shown = await this.#ask('getVariable', { name });
    return shown.found ? shownValue(shown) : undefined;
  }

  async setVariable(name: string, json: string): Promise<void> {
    await this.#ask('setVariable', { name, value: parseJson(json) });
  }

  async info(): Promise<string> {
    return stringifyParsedJson(await this.#ask('info'));
  }

  async close(): Promise<void> {
    if (this.ended !== undefined) return;
    await closed(this.#ask('destroy'));
    this.ended = 'the session is closed; open a new one';
  }
}
