/// <reference types="node" />
// A sandbox in another process: in the daemon, or in an ordinary Python that speaks the same protocol.
import { posix } from 'node:path';
import type { Attendant, Backend, BackendSession, Diagnostic, Entry, Executed, Host, Input, Policy, Shown, ShownValue } from '../backend.ts';
import { isText } from '../displays.ts';
import { type FailureClass, errorOf } from '../errors.ts';
import { type Connection, type Answers, type Asking, RpcError } from './rpc.ts';

const CLASSES: Record<string, FailureClass> = {
  'not-initialized': 'SessionError',
  'session-ended': 'SessionError',
  'session-busy': 'SessionError',
  'no-checkpoint': 'SessionError',
  'not-resumable': 'SessionError',
  variable: 'SessionError',
  unavailable: 'UnavailableError',
  'quota-exceeded': 'UnavailableError',
  'rate-exceeded': 'UnavailableError',
  forbidden: 'UnavailableError',
  internal: 'UnavailableError',
  unsupported: 'UnsupportedError',
  file: 'FilesError',
};
const CANCELLED = -32800;

/** Rejects options that only the engine in this process supports. */
export function refuseRemote(policy: Policy): void {
  const asked = {
    workspace: policy.workspace !== undefined,
    mounts: policy.mounts.length > 0,
    commit: policy.commit !== 'always',
    packages: policy.packages !== undefined,
    network: policy.network !== undefined,
  };
  for (const [name, isAsked] of Object.entries(asked)) {
    if (!isAsked) continue;
    const why = 'a daemon\'s sandboxes have no access to your directories, and use the daemon\'s own packages and network';
    throw errorOf('UnsupportedError', `${name}: ${why}; remove it, or use backend: "native"`);
  }
}

/** Returns the handler of the requests that scripts make. */
export function answersOf(policy: Policy, host: Host): Answers {
  return async (method, parameters, signal) => {
    const index = method === 'tool' ? policy.tools.findIndex(({ name }) => name === parameters.name) : -1;
    if (index < 0) return [false, `unknown tool \`${parameters.name ?? method}\`; call a registered tool`] as const;
    return host.answer(index, JSON.stringify(parameters.arguments ?? {}), signal);
  };
}

/** Opens a sandbox over a connection. `name` is a language or the name of a runtime. */
export async function openRemote(connection: Connection, name: string, policy: Policy): Promise<Backend> {
  const bytes = (contents: Uint8Array): object => ({ base64: Buffer.from(contents).toString('base64') });
  const limits = Object.entries(policy.limits).map(([key, value]) => [snakeName(key), Number(value)]);
  const asked = {
    [name === 'python' || name === 'javascript' ? 'language' : 'runtime']: name,
    policy: {
      limits: Object.fromEntries(limits),
      session: {
        ...(policy.checkpoints !== undefined && {
          checkpoints: typeof policy.checkpoints === 'bigint' ? { every: Number(policy.checkpoints) } : policy.checkpoints,
        }),
        ...(policy.onUnwind && { on_unwind: policy.onUnwind }),
      },
      env: Object.fromEntries(policy.env),
      args: policy.args,
      auto_persist_globals: policy.autoPersistGlobals,
      metering: policy.metering,
      ...(policy.seed !== undefined && { entropy: { seeded: Number(policy.seed) } }),
      ...(policy.clockNs !== undefined && { clock: { fixed: Number(policy.clockNs) } }),
    },
    files: Object.fromEntries(policy.files.map(([path, contents]) => [path, bytes(contents)])),
    tools: policy.tools.map((tool) => ({ ...tool, schema: JSON.parse(tool.schema) })),
    queries: [],
  };
  const open = (more: object): Promise<Opened> => told(connection.call('initialize', { ...asked, ...more }));
  try {
    return new RemoteBackend(connection, await open({ open: false }), open);
  } catch (error) {
    connection.close(error as Error);
    throw error;
  }
}

interface Opened {
  session: string;
  language: 'python' | 'javascript';
  runtime: string;
  version: string | null;
}

function snakeName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Converts a daemon's errors to this package's errors. */
async function told<Result>(asked: Promise<Result>, ofFiles = false): Promise<Result> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    const known = CLASSES[error.reason] ?? 'PolicyError';
    throw errorOf(ofFiles && known === 'PolicyError' ? 'FilesError' : known, error.message, error);
  }
}

function noId(id: string | undefined): void {
  if (id !== undefined) throw errorOf('UnsupportedError', 'id: a daemon chooses its sessions\' ids; remove it, or use backend: "native"');
}

function decoded(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64'));
}

function encoded(bytes: Uint8Array): { base64: string } {
  return { base64: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64') };
}

function paramsOf({ source, name, kind, stdin, context, timeoutMs }: Input): object {
  return {
    code: source,
    ...(name !== undefined && { name }),
    ...(kind && { kind }),
    ...(stdin && { stdin: encoded(stdin) }),
    ...(context !== undefined && { context: JSON.parse(context) }),
    ...(timeoutMs !== undefined && { timeout_ms: timeoutMs }),
  };
}

async function execute(connection: Connection, params: object, { cancel, output }: Attendant): Promise<any> {
  const asking: Asking = {
    cancel,
    onOutput: output && ((stream, text) => output(stream === 'stderr', new TextEncoder().encode(text))),
  };
  try {
    return await connection.call('execute', { ...params, stream: output !== undefined }, asking);
  } catch (error) {
    if (error instanceof RpcError && error.code === CANCELLED) return NOT_BEGUN;
    return told(Promise.reject(error));
  }
}

/** The result of an execution that was cancelled before it started. */
const NOT_BEGUN = {
  success: false,
  outcome: { kind: 'cancelled' },
  interrupted: null,
  value: null,
  stdout: '',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
  displays: [],
  displays_dropped: 0,
  fuel_consumed: 0,
  memory_used_bytes: 0,
  duration_ms: 0,
  files_created: [],
  files_modified: [],
  files_deleted: [],
  tool_calls: [],
  workspace_path: null,
  session_id: null,
  rolled_back_to: null,
  guidance: { fuel: { used: 0, limit: 0, utilization_percent: 0, status: 'efficient', suggested_limit: null, likely_causes: [] }, advice: [] },
  metadata: {},
};

class RemoteBackend implements Backend {
  readonly #connection: Connection;
  readonly #session: string;
  readonly #open: (more: object) => Promise<Opened>;
  readonly language: 'python' | 'javascript';
  readonly runtimeName: string;
  readonly version: string | undefined;

  constructor(connection: Connection, opened: Opened, open: (more: object) => Promise<Opened>) {
    this.#connection = connection;
    this.#session = opened.session;
    this.#open = open;
    this.language = opened.language;
    this.runtimeName = opened.runtime;
    this.version = opened.version ?? undefined;
  }

  async execute(input: Input, attendant: Attendant): Promise<Executed> {
    const params = { session: this.#session, ...paramsOf(input), fresh: true, return_files: true };
    return new RemoteExecuted(await execute(this.#connection, params, attendant));
  }

  async validate(input: Input): Promise<Diagnostic[]> {
    return (await told(this.#connection.call('validate', { session: this.#session, ...paramsOf(input) }))).diagnostics;
  }

  async session(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    noId(id);
    const opened = await this.#open(context === undefined ? {} : { context: JSON.parse(context) });
    return new RemoteSession(this.#connection, opened.session);
  }

  async resume(state: Uint8Array, id: string | undefined): Promise<BackendSession> {
    noId(id);
    return new RemoteSession(this.#connection, (await this.#open({ state: encoded(state) })).session);
  }

  async close(): Promise<void> {
    this.#connection.close(errorOf('SessionLostError', 'the sandbox was closed together with its sessions'));
  }
}

class RemoteSession implements BackendSession {
  readonly #connection: Connection;
  readonly id: string;
  ended: string | undefined;

  constructor(connection: Connection, id: string) {
    this.#connection = connection;
    this.id = id;
  }

  async #ask(method: string, params: object = {}, ofFiles = false): Promise<any> {
    if (this.ended !== undefined) throw errorOf('SessionError', this.ended);
    return told(this.#connection.call(method, { session: this.id, ...params }), ofFiles);
  }

  async execute(input: Input, attendant: Attendant): Promise<Executed> {
    if (this.ended !== undefined) throw errorOf('SessionError', this.ended);
    const record = await execute(this.#connection, { session: this.id, ...paramsOf(input) }, attendant);
    return new RemoteExecuted(record, this);
  }

  async getVariable(name: string): Promise<ShownValue | undefined> {
    const shown = await this.#ask('getVariable', { name });
    return shown.found ? { repr: shown.repr, ...('value' in shown && { json: JSON.stringify(shown.value) }) } : undefined;
  }

  async setVariable(name: string, json: string): Promise<void> {
    await this.#ask('setVariable', { name, value: JSON.parse(json) });
  }

  async listFiles(pattern: string): Promise<Entry[]> {
    return entriesOf((await this.#ask('listFiles', { pattern }, true)).files);
  }

  async readFile(path: string): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for (let offset = 0; ; ) {
      // A large file arrives in chunks.
      const { contents, size_bytes: size } = await this.#ask('readFile', { path, offset }, true);
      const piece = decoded(contents.base64);
      pieces.push(piece);
      offset += piece.length;
      if (piece.length === 0 || offset >= size) return new Uint8Array(Buffer.concat(pieces));
    }
  }

  async writeFile(path: string, contents: Uint8Array): Promise<void> {
    await this.#ask('writeFile', { path, contents: encoded(contents) }, true);
  }

  async deleteFile(path: string, recursive: boolean): Promise<void> {
    await this.#ask('deleteFile', { path, recursive }, true);
  }

  async fork(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    noId(id);
    const opened = await this.#ask('fork', context === undefined ? {} : { context: JSON.parse(context) });
    return new RemoteSession(this.#connection, opened.session);
  }

  async checkpoint(): Promise<bigint> {
    return BigInt((await this.#ask('checkpoint')).checkpoint);
  }

  async checkpoints(): Promise<string> {
    return JSON.stringify((await this.#ask('checkpoints')).checkpoints);
  }

  async undo(checkpoint: bigint | undefined): Promise<bigint> {
    return BigInt((await this.#ask('undo', checkpoint === undefined ? {} : { checkpoint: Number(checkpoint) })).checkpoint);
  }

  async hibernate(): Promise<Uint8Array> {
    return decoded((await this.#ask('hibernate')).state.base64);
  }

  async info(): Promise<string> {
    const info = await this.#ask('info');
    this.ended ??= info.ended ?? undefined;
    return JSON.stringify(info);
  }

  async close(): Promise<void> {
    if (this.ended !== undefined) return;
    try {
      await this.#ask('destroy');
    } catch (error) {
      if (!['SessionError', 'SessionLostError', 'UnavailableError'].includes((error as Error).name)) throw error;
    }
    this.ended = 'the session was closed';
  }
}

function entriesOf(listed: any[]): Entry[] {
  return listed.map((entry) => ({
    path: entry.path,
    kind: entry.kind,
    sizeBytes: BigInt(entry.size_bytes),
    modifiedNs: BigInt(entry.modified_ns),
  }));
}

class RemoteExecuted implements Executed {
  readonly #record: any;
  readonly #session: RemoteSession | undefined;

  constructor(record: any, session?: RemoteSession) {
    this.#record = record;
    this.#session = session;
  }

  get ok(): boolean {
    return this.#record.success;
  }

  get stdout(): string {
    return this.#record.stdout;
  }

  get stderr(): string {
    return this.#record.stderr;
  }

  get stdoutBytes(): Uint8Array {
    return this.#output('stdout');
  }

  get stderrBytes(): Uint8Array {
    return this.#output('stderr');
  }

  #output(name: string): Uint8Array {
    const base64 = this.#record[`${name}_base64`];
    return base64 === undefined ? new TextEncoder().encode(this.#record[name]) : decoded(base64);
  }

  get fuelConsumed(): bigint {
    return BigInt(this.#record.fuel_consumed);
  }

  get value(): ShownValue | undefined {
    const value = this.#record.value;
    return value ? { repr: value.repr, ...('json' in value && { json: JSON.stringify(value.json) }) } : undefined;
  }

  get displays(): readonly Shown[] {
    return this.#record.displays.map((shown: any) => ({
      isResult: shown.is_result,
      forms: Object.entries<string>(shown.data).map(([type, data]) => [type, isText(type) ? new TextEncoder().encode(data) : decoded(data)]),
    }));
  }

  json(): string {
    const { error: _error, files: _files, stdout_base64: _stdout, stderr_base64: _stderr, ...record } = this.#record;
    return JSON.stringify({ ...record, displays: [] });
  }

  async listFiles(pattern: string): Promise<Entry[]> {
    if (this.#session) return this.#session.listFiles(pattern);
    if (pattern !== '**') {
      const instead = 'remove it, or use backend: "native"';
      throw errorOf('UnsupportedError', `pattern: outside a session this backend only lists all files; ${instead}`);
    }
    return entriesOf(this.#record.files?.entries ?? []);
  }

  async readFile(path: string): Promise<Uint8Array> {
    if (this.#session) return this.#session.readFile(path);
    const contents = this.#record.files?.contents?.[posix.normalize(path)];
    if (contents === undefined) {
      const more = this.#record.files?.left_out ? ', or it was too large to be returned' : '';
      throw errorOf('FilesError', `there is no file \`${path}\`${more}`);
    }
    return decoded(contents);
  }
}
