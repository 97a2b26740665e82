/// <reference types="node" />
// A sandbox in the daemon, over HTTP.
import { posix } from 'node:path';
import type {
  ExecutionHooks,
  BackendSession,
  BackendWaiting,
  CallAnswer,
  Diagnostic,
  Entry,
  BackendExecution,
  Host,
  Input,
  Policy,
  RequestedCall,
  ShownValue,
  BackendStep,
  Startable,
  StartableBackend,
} from '../backend.ts';
import { Cancel } from '../cancel.ts';
import { type FailureClass, errorOf } from '../errors.ts';
import { stringifyJson, stringifyParsedJson } from '../json.ts';
import { policyRecord } from '../policy.ts';
import { type ExecutionFiles, RecordExecution, closed, decoded, encoded, shownValue } from '../record.ts';
import { type Client, Problem, RESUME, type Route } from './client.ts';
import { type DaemonContext, DaemonExecution, execute } from './execution.ts';

/** Opens a sandbox in the daemon. `name` is a language or the name of a runtime. */
export async function openSandbox(client: Client, name: string, policy: Policy, host: Host): Promise<StartableBackend> {
  const context: DaemonContext = { client, executions: new Set(), tools: policy.tools, host };
  const changes = stringifyJson(policyRecord(policy));
  const fields = {
    runtime: fieldsOf({ [name === 'python' || name === 'javascript' ? 'language' : 'runtime']: name }),
    // Requests without a policy share a sandbox that the daemon already has.
    policy: changes === '{}' ? '' : `"policy":${changes}`,
    files: fieldsOf({ files: Object.fromEntries(policy.files.map(([path, contents]) => [path, encoded(contents)])) }),
    tools: `"tools":[${policy.tools.map((tool) => `{${fieldsOf({ name: tool.name, description: tool.description })},"schema":${tool.schema}}`).join()}]`,
  };
  // The daemon checks all options when it executes this empty script. The result names the runtime.
  const { metadata } = await mapErrors(client.json(['POST', '/v1/execute'], objectOf('"source":""', ...Object.values(fields))));
  return new DaemonBackend(context, fields, metadata);
}

/** The parts of request bodies that are the same in all requests of a sandbox, as fields of JSON objects. */
interface Fields {
  runtime: string;
  policy: string;
  files: string;
  tools: string;
}

/** Serializes the fields of an object without its braces. Omits undefined fields. */
function fieldsOf(fields: object): string {
  return JSON.stringify(fields).slice(1, -1);
}

function objectOf(...fields: string[]): string {
  return `{${fields.filter(Boolean).join()}}`;
}

function scriptFields({ source, name, kind, stdin, context, timeoutMs }: Input): string[] {
  const script = { source, name, kind, stdin: stdin && encoded(stdin), deadline_ms: timeoutMs };
  return [fieldsOf(script), context === undefined ? '' : `"context":${context}`];
}

/** Converts the daemon's errors to this package's errors. `otherwise` is the error class for rejected requests. */
async function mapErrors<Result>(asked: Promise<Result>, otherwise?: FailureClass): Promise<Result> {
  return asked.catch((error: unknown) => {
    throw error instanceof Problem ? error.failure(otherwise) : error;
  });
}

/** Converts the daemon's errors of the given types to `SuspensionError`. */
async function suspensionErrors<Result>(types: readonly string[], asked: Promise<Result>): Promise<Result> {
  return asked.catch((error: unknown) => {
    if (!(error instanceof Problem) || !types.includes(error.type)) throw error;
    // The daemon's message names a field of the request.
    const hint = `${IN_SESSION}; restore the session with \`resumeSuspendedSession\`, and call its \`resumeSuspended\``;
    throw errorOf('SuspensionError', error.message.includes(IN_SESSION) ? hint : error.message, error);
  });
}

/** Converts the daemon's errors of the given types to `SuspensionError`, and other errors like `mapErrors`. */
async function mapSuspension<Result>(types: readonly string[], asked: Promise<Result>): Promise<Result> {
  return mapErrors(suspensionErrors(types, asked));
}

/**
 * Repeats a suspended execution until it waits, suspends it again, and returns its calls. Does not cancel the execution:
 * a cancelled script can handle the exception and call tools, and its session is then not rolled back.
 */
async function repeat(place: Startable, state: Uint8Array): Promise<RequestedCall[]> {
  const hooks = { cancel: new Cancel(), output: undefined };
  const stepped = await place.startSuspended(state, undefined, hooks);
  if (!('calls' in stepped)) return [];
  try {
    await stepped.suspend();
  } catch (error) {
    stepped.cancel();
    await stepped.answer([], hooks).catch(() => undefined);
    throw error;
  }
  return [...stepped.calls];
}

/**
 * The error types of a request whose suspended execution cannot be resumed. The sandbox's options were checked earlier,
 * so an invalid argument can only be the suspended execution.
 */
const OF_RESUMPTION: readonly string[] = ['invalid-argument', 'not-resumable', 'diverged'];
/** The error types of later steps if the execution no longer waits. */
const LATER: readonly string[] = ['not-found', 'diverged'];

/** Part of the message of an error about an execution that can only be resumed in a session. */
const IN_SESSION = 'the execution was suspended in a session';

/** Timeout for closing the sessions at the end of the process, in milliseconds. */
const EXIT_MS = 2_000;
/** Timeout for closing a session whose handle was dropped, including its exit handlers, in milliseconds. */
const DROP_MS = 60_000;

/** Sandboxes with open sessions in a daemon. */
const withSessions = new Set<DaemonBackend>();
let isWatching = false;

/**
 * Closes a sandbox's sessions at the end of the process. Otherwise, the daemon would keep the sessions until they have
 * been idle for half an hour.
 */
function closeAtExit(backend: DaemonBackend): void {
  withSessions.add(backend);
  if (isWatching) return;
  isWatching = true;
  process.on('beforeExit', () => {
    for (const each of withSessions) void each.closeSessions();
  });
}

/** Closes the sessions whose handles were dropped. */
const dropped = new FinalizationRegistry<() => void>((close) => close());

class DaemonBackend implements StartableBackend {
  readonly context: DaemonContext;
  readonly fields: Fields;
  /** The paths of the open sessions. */
  readonly #sessions = new Set<string>();
  readonly language: 'python' | 'javascript';
  readonly runtimeName: string;
  readonly version: string | undefined;

  constructor(context: DaemonContext, fields: Fields, metadata: any) {
    this.context = context;
    this.fields = fields;
    this.language = metadata.runtime;
    this.runtimeName = metadata.runtime_name;
    this.version = metadata.version ?? undefined;
  }

  async execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
    const body = objectOf(...scriptFields(input), ...Object.values(this.fields), '"value":false', '"return_files":["**"]');
    const record = await mapErrors(execute(this.context, '/v1/execute', body, hooks));
    return new RecordExecution(record, returnedFiles(record));
  }

  start(input: Input, hooks: ExecutionHooks): Promise<BackendStep> {
    const body = objectOf(...scriptFields(input), ...Object.values(this.fields), this.suspendable, '"value":false', '"return_files":["**"]');
    return this.#started('/v1/execute', body, [], hooks);
  }

  startSuspended(state: Uint8Array, timeoutMs: number | undefined, hooks: ExecutionHooks): Promise<BackendStep> {
    const body = objectOf(fieldsOf({ suspended: encoded(state), deadline_ms: timeoutMs, return_files: ['**'] }), ...Object.values(this.fields));
    return this.#started(RESUME, body, OF_RESUMPTION, hooks);
  }

  #started(path: string, body: string, types: readonly string[], hooks: ExecutionHooks): Promise<BackendStep> {
    const execution = new DaemonExecution(this.context, true);
    const started = new StartedInDaemon(execution, (record) => new RecordExecution(record, returnedFiles(record)));
    return mapSuspension(types, started.step(hooks, () => execution.run(path, body)));
  }

  async suspendedCalls(state: Uint8Array): Promise<RequestedCall[]> {
    // The daemon has no request that only reads the calls, so this method resumes the execution and suspends it again.
    try {
      return await repeat(this, state);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes(IN_SESSION)) throw error;
    }
    const session = await this.opened('/v1/sessions', this.#newSession(undefined, undefined));
    try {
      return await repeat(session, state);
    } finally {
      await session.close();
    }
  }

  async resumeSuspendedSession(state: Uint8Array, id: string | undefined): Promise<BackendSession> {
    // The daemon has no request that only restores the session, so this method resumes the execution in a new session
    // and suspends it again. The session is then rolled back to its state before the execution.
    const session = await this.opened('/v1/sessions', this.#newSession(id, undefined));
    try {
      await repeat(session, state);
    } catch (error) {
      await session.close();
      throw error;
    }
    return session;
  }

  async validate(input: Input): Promise<Diagnostic[]> {
    const body = objectOf(...scriptFields(input), this.fields.runtime, this.fields.policy);
    return (await mapErrors(this.context.client.json(['POST', '/v1/validate'], body))).diagnostics;
  }

  async checkTypes(input: Input): Promise<Diagnostic[]> {
    const { runtime, policy, tools } = this.fields;
    const body = objectOf(...scriptFields(input), '"check_types":true', runtime, policy, tools);
    return (await mapErrors(this.context.client.json(['POST', '/v1/validate'], body))).diagnostics;
  }

  async session(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    return this.opened('/v1/sessions', this.#newSession(id, context));
  }

  /** Returns the body of a request that opens a session. */
  #newSession(id: string | undefined, context: string | undefined): string {
    const { runtime, policy, files } = this.fields;
    return objectOf(fieldsOf({ id }), runtime, policy, files, context === undefined ? '' : `"context":${context}`);
  }

  /** The field that makes executions suspendable. Empty for a sandbox without tools. */
  get suspendable(): string {
    return this.context.tools.length > 0 ? '"suspendable":true' : '';
  }

  async resume(state: Uint8Array, id: string | undefined): Promise<BackendSession> {
    const session = await this.opened('/v1/sessions', objectOf(fieldsOf({ id, state: encoded(state) }), this.fields.policy));
    if (session.runtimeName === this.runtimeName) return session;
    await session.close();
    const runtimes = `\`${session.runtimeName}\`, and this sandbox has \`${this.runtimeName}\``;
    throw errorOf('SessionError', `the session was saved with the runtime ${runtimes}; create a sandbox with its runtime`);
  }

  /** Opens a session by sending a request, and records the session until it is closed. */
  async opened(path: string, body: string): Promise<DaemonSession> {
    const { id, runtime } = await mapErrors(this.context.client.json(['POST', path], body));
    const session = new DaemonSession(this, id, runtime);
    const { path: opened } = session;
    this.#sessions.add(opened);
    closeAtExit(this);
    dropped.register(session, () => void this.closeSession(opened, DROP_MS).catch(() => undefined), session);
    return session;
  }

  async closeSession(path: string, timeoutMs?: number): Promise<void> {
    this.#sessions.delete(path);
    if (this.#sessions.size === 0) withSessions.delete(this);
    await mapErrors(this.context.client.json(['DELETE', path], undefined, timeoutMs));
  }

  async closeSessions(): Promise<void> {
    await Promise.all(Array.from(this.#sessions, (path) => this.closeSession(path, EXIT_MS).catch(() => undefined)));
  }

  async close(): Promise<void> {
    withSessions.delete(this);
    const why = errorOf('SessionLostError', 'the sandbox was closed together with its sessions');
    // Executions come first, because a session can only be closed after its execution has ended.
    await this.context.client.close(why, () => [this.context.executions, this.#sessions]);
  }
}

/** An execution that the caller advances from one wait to the next. */
class StartedInDaemon {
  readonly execution: DaemonExecution;
  readonly #executed: (record: any) => BackendExecution | Promise<BackendExecution>;

  constructor(execution: DaemonExecution, executed: (record: any) => BackendExecution | Promise<BackendExecution>) {
    this.execution = execution;
    this.#executed = executed;
  }

  /** Runs a step. Rejects with a `Problem` if the daemon reports an error. */
  async step(hooks: ExecutionHooks, step: () => Promise<any>): Promise<BackendStep> {
    const record = await this.execution.attend(hooks, step);
    return record === undefined ? new DaemonWaiting(this, this.execution.open) : this.#executed(record);
  }
}

/** An execution in the daemon that waits for answers. */
class DaemonWaiting implements BackendWaiting {
  readonly #started: StartedInDaemon;
  readonly calls: readonly RequestedCall[];

  constructor(started: StartedInDaemon, calls: readonly RequestedCall[]) {
    this.#started = started;
    this.calls = calls;
  }

  get stdout(): string {
    return this.#started.execution.written(false);
  }

  get stderr(): string {
    return this.#started.execution.written(true);
  }

  answer(answers: CallAnswer[], hooks: ExecutionHooks): Promise<BackendStep> {
    return mapSuspension(LATER, this.#started.step(hooks, () => this.#started.execution.answer(answers)));
  }

  async suspend(): Promise<Uint8Array> {
    return mapSuspension(['not-suspendable', 'not-found'], this.#started.execution.suspend());
  }

  cancel(): void {
    this.#started.execution.cancel();
  }
}

class DaemonSession implements BackendSession, Startable {
  readonly #backend: DaemonBackend;
  readonly #client: Client;
  readonly id: string;
  readonly path: string;
  readonly runtimeName: string;
  #isClosed = false;
  ended: string | undefined;

  constructor(backend: DaemonBackend, id: string, runtimeName: string) {
    this.#backend = backend;
    this.#client = backend.context.client;
    this.id = id;
    this.path = `/v1/sessions/${encodeURIComponent(id)}`;
    this.runtimeName = runtimeName;
  }

  /** Performs a request unless the session has ended. Records the reason if the daemon reports that it has ended. */
  async #asked<Result>(ask: () => Promise<Result>, otherwise?: FailureClass): Promise<Result> {
    if (this.ended !== undefined) throw errorOf('SessionError', this.ended);
    const asked = ask().catch((error: unknown) => {
      if (error instanceof Problem && error.type === 'session-ended') this.ended ??= error.message;
      throw error;
    });
    return mapErrors(asked, otherwise);
  }

  #json(route: Route, body?: string | Uint8Array, otherwise?: FailureClass): Promise<any> {
    return this.#asked(() => this.#client.json(route, body), otherwise);
  }

  async execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
    const body = objectOf(...scriptFields(input), this.#backend.fields.tools);
    const record = await this.#asked(() => execute(this.#backend.context, `${this.path}/execute`, body, hooks));
    return this.#executed(record);
  }

  async #executed(record: any): Promise<BackendExecution> {
    // A script that exited or was stopped may have ended the session.
    if (!['completed', 'raised'].includes(record.outcome.kind)) await this.info().catch(() => undefined);
    return new RecordExecution(record, this);
  }

  start(input: Input, hooks: ExecutionHooks): Promise<BackendStep> {
    const body = objectOf(...scriptFields(input), this.#backend.suspendable, this.#backend.fields.tools);
    return this.#asked(() => this.#started(`${this.path}/execute`, body, hooks));
  }

  async validate(input: Input, types: boolean): Promise<Diagnostic[]> {
    const more = types ? ['"check_types":true', this.#backend.fields.tools] : [];
    return (await this.#json(['POST', `${this.path}/validate`], objectOf(...scriptFields(input), ...more))).diagnostics;
  }

  startSuspended(state: Uint8Array, timeoutMs: number | undefined, hooks: ExecutionHooks): Promise<BackendStep> {
    const fields = fieldsOf({ session: this.id, suspended: encoded(state), deadline_ms: timeoutMs });
    const body = objectOf(fields, this.#backend.fields.tools);
    return this.#asked(() => suspensionErrors(OF_RESUMPTION, this.#started(RESUME, body, hooks)));
  }

  #started(path: string, body: string, hooks: ExecutionHooks): Promise<BackendStep> {
    const execution = new DaemonExecution(this.#backend.context, true);
    const started = new StartedInDaemon(execution, (record) => this.#executed(record));
    return started.step(hooks, () => execution.run(path, body));
  }

  #variable(name: string): string {
    return `${this.path}/variables/${encodeURIComponent(name)}`;
  }

  async getVariable(name: string): Promise<ShownValue | undefined> {
    return this.#asked(async () => {
      try {
        return shownValue(await this.#client.json(['GET', this.#variable(name)]));
      } catch (error) {
        if (error instanceof Problem && error.type === 'no-variable') return undefined;
        throw error;
      }
    });
  }

  async setVariable(name: string, json: string): Promise<void> {
    await this.#json(['PUT', this.#variable(name)], json);
  }

  async listFiles(pattern: string): Promise<Entry[]> {
    const entries: Entry[] = [];
    for (let cursor: string | undefined; ; ) {
      const query = new URLSearchParams({ pattern, ...(cursor !== undefined && { cursor }) });
      const page = await this.#json(['GET', `${this.path}/files?${query}`], undefined, 'FilesError');
      entries.push(...entriesOf(page.files));
      if (page.next === null) return entries;
      cursor = page.next;
    }
  }

  #file(path: string): string {
    return `${this.path}/files/${path.split('/').map(encodeURIComponent).join('/')}`;
  }

  readFile(path: string): Promise<Uint8Array> {
    return this.#asked(async () => {
      try {
        return new Uint8Array(await this.#client.bytes(['GET', this.#file(path)]));
      } catch (error) {
        if (!(error instanceof Problem) || error.type !== 'too-large') throw error;
      }
      // The file is too large for one response, so it is read in parts.
      const parts: Uint8Array[] = [];
      for (let offset = 0; ; ) {
        const [part, sizeBytes] = await this.#client.part(this.#file(path), offset);
        parts.push(part);
        offset += part.length;
        if (part.length === 0 || offset >= sizeBytes) return new Uint8Array(Buffer.concat(parts));
      }
    }, 'FilesError');
  }

  async writeFile(path: string, contents: Uint8Array): Promise<void> {
    await this.#json(['PUT', this.#file(path)], contents, 'FilesError');
  }

  async deleteFile(path: string, recursive: boolean): Promise<void> {
    await this.#json(['DELETE', `${this.#file(path)}?recursive=${recursive}`], undefined, 'FilesError');
  }

  async fork(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    const fork = await this.#asked(() => this.#backend.opened(`${this.path}/fork`, objectOf(fieldsOf({ id }))));
    if (context !== undefined) await fork.setVariable('context', context);
    return fork;
  }

  async checkpoint(): Promise<bigint> {
    return BigInt((await this.#json(['POST', `${this.path}/checkpoint`])).checkpoint);
  }

  async checkpoints(): Promise<string> {
    return stringifyParsedJson((await this.#json(['GET', `${this.path}/checkpoints`])).checkpoints);
  }

  async undo(checkpoint: bigint | undefined): Promise<bigint> {
    return BigInt((await this.#json(['POST', `${this.path}/undo`], stringifyJson(checkpoint === undefined ? {} : { checkpoint }))).checkpoint);
  }

  async hibernate(): Promise<Uint8Array> {
    return this.#asked(async () => new Uint8Array(await this.#client.bytes(['GET', `${this.path}/state`])));
  }

  async info(): Promise<string> {
    const { live } = await this.#json(['GET', this.path]);
    this.ended ??= live.ended ?? undefined;
    return stringifyParsedJson(live);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.ended ??= 'the session is closed; open a new one';
    dropped.unregister(this);
    await closed(this.#backend.closeSession(this.path));
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

/** Returns the files that a record contains. */
function returnedFiles(record: any): ExecutionFiles {
  return {
    async listFiles(pattern) {
      if (pattern === '**') return entriesOf(record.file_entries ?? []);
      throw errorOf('UnsupportedError', 'pattern: this backend supports patterns only in sessions; remove it, or use backend: "native"');
    },
    async readFile(path) {
      const contents = record.files?.[posix.normalize(path)];
      if (contents !== undefined) return decoded(contents);
      const more = record.files_left_out ? ', or is too large to return' : '';
      throw errorOf('FilesError', `the file \`${path}\` does not exist${more}`);
    },
  };
}
