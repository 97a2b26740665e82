/// <reference types="node" />
// The backend that runs scripts with the engine in this process. The native module answers requests through callbacks,
// which this module wraps in promises.
import type {
  ExecutionHooks,
  Backend,
  BackendSession,
  BackendWaiting,
  CallAnswer,
  Diagnostic,
  Entry,
  BackendExecution,
  Host,
  Input,
  NetworkRecord,
  Policy,
  RequestedCall,
  BackendDisplay,
  ShownValue,
  BackendStep,
  Startable,
  StartableBackend,
} from '../backend.ts';
import { CommitError, type FailureClass, errorOf, unsupportedTypes } from '../errors.ts';
import { stringifyJson } from '../json.ts';
import { policyRecord, snake } from '../policy.ts';
import { Run } from '../run.ts';
import { type Native, images } from './find.ts';
import {
  type Callback,
  DONE,
  FAILED,
  type NativeEngine,
  type NativeExecution,
  type NativeFailure,
  type NativeInput,
  type NativeModule,
  type NativePort,
  type NativeSandbox,
  type NativeSession,
  type NativeStarted,
  type NativeToken,
  PROGRESS,
} from './module.ts';
import { Port, type PortResult } from './port.ts';

/** Calls a function that reports through a callback, and returns the result as a promise. */
function callNative<Result>(ask: (callback: Callback) => void, onEvent?: (event: number, payload: any) => void): Promise<Result> {
  return new Promise((resolve, reject) => {
    ask((event, payload) => {
      if (event === DONE) resolve(payload ?? undefined);
      else if (event === FAILED) reject(failureOf(payload));
      else onEvent?.(event, payload);
    });
  });
}

function failureOf(failure: NativeFailure): Error {
  if (failure.execution) return new CommitError(failure.message, new Run(new EngineExecution(failure.execution)));
  return errorOf(failure.class as FailureClass, failure.message);
}

const engines = new Map<boolean, Promise<NativeEngine>>();

/** Returns the engine that all sandboxes with the same `packages` option share. */
function engineOf({ module, bundles, prepared }: Native, packages: boolean): Promise<NativeEngine> {
  const known = engines.get(packages);
  if (known) return known;
  const options = { cacheDir: process.env['GLOVEBOX_CACHE_DIR'] || undefined, bundles, prepared, images: images(), packages };
  const made = callNative<NativeEngine>((callback) => module.NativeEngine.open(options, callback));
  engines.set(packages, made);
  made.catch(() => engines.delete(packages));
  return made;
}

/**
 * Creates a sandbox. On first use, unpacks the prepared interpreter if a package contains one. Otherwise, compiles and
 * boots the interpreter.
 */
export async function openNative(native: Native, name: string, policy: Policy, host: Host): Promise<Backend> {
  const engine = await engineOf(native, policy.packages !== false);
  const calls = new Map<number, AbortController>();
  let sandbox: NativeSandbox | undefined;
  const answer = (call: number, tool: number, parameters: string | null): void => {
    if (parameters === null) {
      calls.get(call)?.abort();
      return;
    }
    const controller = new AbortController();
    calls.set(call, controller);
    void host.answer(tool, parameters, controller.signal).then(([kind, text]) => {
      calls.delete(call);
      sandbox?.reply(call, kind, text);
    });
  };
  const files = policy.files.map(([path, contents]) => ({ path, contents }));
  const options = { name, policy: stringifyJson(hostPolicyRecord(policy)), files, tools: policy.tools };
  const token = new native.module.NativeToken();
  sandbox = await callNative<NativeSandbox>(
    (callback) => native.module.NativeSandbox.open(engine, options, token, answer, callback),
    (event, text) => event === PROGRESS && host.progress(text),
  );
  return new NativeBackend(native.module, sandbox);
}

function networkRecord({ allow, allowPrivate, methods, secrets, numbers }: NetworkRecord): object {
  return {
    allow,
    allow_private: allowPrivate,
    ...(methods && { methods }),
    secrets: Object.fromEntries(secrets),
    ...Object.fromEntries(numbers.map(([name, value]) => [snake(name), value])),
  };
}

/** Converts a policy, including its access to host directories and the network. */
function hostPolicyRecord(policy: Policy): object {
  return {
    ...policyRecord(policy),
    commit: policy.commit,
    mounts: policy.mounts.map(([guest, { host, readOnly }]) => ({ host, guest, read_only: readOnly })),
    ...(policy.workspace !== undefined && { workspace: policy.workspace }),
    ...(policy.network && { network: networkRecord(policy.network) }),
  };
}

class NativeBackend implements StartableBackend {
  readonly #module: NativeModule;
  /** The native sandbox, for benchmarks. */
  readonly native: NativeSandbox;
  readonly language: 'python' | 'javascript';
  readonly runtimeName: string;
  readonly version: string | undefined;

  constructor(module: NativeModule, sandbox: NativeSandbox) {
    this.#module = module;
    this.native = sandbox;
    this.language = sandbox.language;
    this.runtimeName = sandbox.runtimeName;
    this.version = sandbox.version ?? undefined;
  }

  execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
    return executed(this.#module, this.native, input, hooks);
  }

  start(input: Input, hooks: ExecutionHooks): Promise<BackendStep> {
    return started(this.#module, this.native, input, hooks);
  }

  startSuspended(state: Uint8Array, timeoutMs: number | undefined, hooks: ExecutionHooks): Promise<BackendStep> {
    return startedAgain(this.#module, this.native, state, timeoutMs, hooks);
  }

  async suspendedCalls(state: Uint8Array): Promise<RequestedCall[]> {
    return JSON.parse(await callNative((callback) => this.native.suspendedCalls(buffer(state), callback)));
  }

  validate(input: Input): Promise<Diagnostic[]> {
    return callNative((callback) => this.native.validate(nativeInput(input, false), new this.#module.NativeToken(), callback));
  }

  async session(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    return new EngineSession(this.#module, await callNative((callback) => this.native.session(id, context, callback)), this);
  }

  async resumeSuspendedSession(state: Uint8Array, id: string | undefined): Promise<BackendSession> {
    return new EngineSession(this.#module, await callNative((callback) => this.native.resumeSuspendedSession(buffer(state), id, callback)), this);
  }

  async resume(state: Uint8Array, id: string | undefined): Promise<BackendSession> {
    return new EngineSession(this.#module, await callNative((callback) => this.native.resume(state, id, callback)), this);
  }

  async close(): Promise<void> {}
}

/** Returns a `Buffer`, which the native module expects, over the same bytes. */
function buffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function nativeInput(input: Input, isHeard: boolean): NativeInput {
  return { ...input, stdin: input.stdin && buffer(input.stdin), isHeard };
}

type ExecuteMethod = Pick<NativeSandbox & NativeSession, 'execute'>;
type StartMethods = Pick<NativeSandbox & NativeSession, 'start' | 'startSuspended'>;

/** The port of the current JavaScript thread. */
let port: Port | undefined;

/** Runs an execution, or a step of a started execution. `token` cancels the execution. */
async function ran(
  module: NativeModule,
  token: NativeToken,
  { cancel, output }: ExecutionHooks,
  begin: (port: NativePort, execution: number) => void,
): Promise<PortResult> {
  port ??= new Port(module);
  cancel.onCancel(() => token.cancel());
  try {
    return await port.execute(begin, output);
  } catch (error) {
    // The native module throws an `Error` if it cannot start the execution.
    throw error instanceof Error ? error : failureOf(error as NativeFailure);
  } finally {
    cancel.onCancel(undefined);
  }
}

async function executed(module: NativeModule, what: ExecuteMethod, input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
  const token = new module.NativeToken();
  const given = nativeInput(input, hooks.output !== undefined);
  const result = await ran(module, token, hooks, (port, execution) => what.execute(given, token, port, execution));
  return new EngineExecution(result as NativeExecution);
}

/** Runs a step of a started execution. `step` begins the step. */
async function stepped(
  module: NativeModule,
  token: NativeToken,
  hooks: ExecutionHooks,
  step: (token: NativeToken, port: NativePort, execution: number) => NativeStarted,
): Promise<BackendStep> {
  let started: NativeStarted | undefined;
  const result = await ran(module, token, hooks, (port, execution) => {
    started = step(token, port, execution);
  });
  if (!Array.isArray(result)) return new EngineExecution(result);
  return new EngineWaiting(module, started as NativeStarted, token, result);
}

/** Starts an execution in a sandbox or a session. */
function started(module: NativeModule, on: StartMethods, input: Input, hooks: ExecutionHooks): Promise<BackendStep> {
  const given = nativeInput(input, hooks.output !== undefined);
  return stepped(module, new module.NativeToken(), hooks, (token, port, execution) => on.start(given, token, port, execution));
}

/** Restarts a suspended execution in a sandbox or a session. */
function startedAgain(
  module: NativeModule,
  on: StartMethods,
  state: Uint8Array,
  timeoutMs: number | undefined,
  hooks: ExecutionHooks,
): Promise<BackendStep> {
  const suspended = { state: buffer(state), timeoutMs, isHeard: hooks.output !== undefined };
  return stepped(module, new module.NativeToken(), hooks, (token, port, execution) =>
    on.startSuspended(suspended, token, port, execution),
  );
}

/** An execution of the engine that waits for answers. */
class EngineWaiting implements BackendWaiting {
  readonly #module: NativeModule;
  readonly #started: NativeStarted;
  readonly #token: NativeToken;
  readonly calls: readonly RequestedCall[];

  constructor(module: NativeModule, started: NativeStarted, token: NativeToken, calls: RequestedCall[]) {
    this.#module = module;
    this.#started = started;
    this.#token = token;
    this.calls = calls;
  }

  get stdout(): string {
    return this.#started.stdout;
  }

  get stderr(): string {
    return this.#started.stderr;
  }

  answer(answers: CallAnswer[], hooks: ExecutionHooks): Promise<BackendStep> {
    return stepped(this.#module, this.#token, hooks, (_, port, execution) => {
      this.#started.advance(answers, port, execution);
      return this.#started;
    });
  }

  suspend(): Promise<Uint8Array> {
    return callNative((callback) => this.#started.suspend(callback));
  }

  cancel(): void {
    this.#token.cancel();
  }
}

class EngineExecution implements BackendExecution {
  readonly #execution: NativeExecution;

  constructor(execution: NativeExecution) {
    this.#execution = execution;
  }

  get ok(): boolean {
    return this.#execution.ok;
  }

  get stdout(): string {
    return this.#execution.stdout;
  }

  get stderr(): string {
    return this.#execution.stderr;
  }

  get stdoutBytes(): Uint8Array {
    return this.#execution.stdoutBytes;
  }

  get stderrBytes(): Uint8Array {
    return this.#execution.stderrBytes;
  }

  get fuelConsumed(): bigint {
    return this.#execution.fuelConsumed;
  }

  get value(): ShownValue | undefined {
    const value = this.#execution.value;
    return value ? { repr: value[0], json: value[1] ?? undefined } : undefined;
  }

  get displays(): readonly BackendDisplay[] {
    return this.#execution.displays;
  }

  json(): string {
    return this.#execution.json();
  }

  listFiles(pattern: string): Promise<Entry[]> {
    return callNative((callback) => this.#execution.listFiles(pattern, callback));
  }

  readFile(path: string): Promise<Uint8Array> {
    return callNative((callback) => this.#execution.readFile(path, callback));
  }
}

class EngineSession implements BackendSession, Startable {
  readonly #module: NativeModule;
  readonly #session: NativeSession;
  readonly #sandbox: NativeBackend;

  constructor(module: NativeModule, session: NativeSession, sandbox: NativeBackend) {
    this.#module = module;
    this.#session = session;
    this.#sandbox = sandbox;
  }

  get id(): string {
    return this.#session.id;
  }

  get ended(): string | undefined {
    return this.#session.ended ?? undefined;
  }

  execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution> {
    return executed(this.#module, this.#session, input, hooks);
  }

  start(input: Input, hooks: ExecutionHooks): Promise<BackendStep> {
    return started(this.#module, this.#session, input, hooks);
  }

  startSuspended(state: Uint8Array, timeoutMs: number | undefined, hooks: ExecutionHooks): Promise<BackendStep> {
    return startedAgain(this.#module, this.#session, state, timeoutMs, hooks);
  }

  async validate(input: Input, types: boolean): Promise<Diagnostic[]> {
    if (types) throw unsupportedTypes(this.#sandbox.language, 'native');
    return this.#sandbox.validate(input);
  }

  async getVariable(name: string): Promise<ShownValue | undefined> {
    return callNative((callback) => this.#session.getVariable(name, callback));
  }

  setVariable(name: string, json: string): Promise<void> {
    return callNative((callback) => this.#session.setVariable(name, json, callback));
  }

  listFiles(pattern: string): Promise<Entry[]> {
    return callNative((callback) => this.#session.listFiles(pattern, callback));
  }

  readFile(path: string): Promise<Uint8Array> {
    return callNative((callback) => this.#session.readFile(path, callback));
  }

  writeFile(path: string, contents: Uint8Array): Promise<void> {
    return callNative((callback) => this.#session.writeFile(path, buffer(contents), callback));
  }

  deleteFile(path: string, recursive: boolean): Promise<void> {
    return callNative((callback) => this.#session.deleteFile(path, recursive, callback));
  }

  async fork(id: string | undefined, context: string | undefined): Promise<BackendSession> {
    return new EngineSession(this.#module, await callNative((callback) => this.#session.fork(id, context, callback)), this.#sandbox);
  }

  checkpoint(): Promise<bigint> {
    return callNative((callback) => this.#session.checkpoint(callback));
  }

  checkpoints(): Promise<string> {
    return callNative((callback) => this.#session.checkpoints(callback));
  }

  undo(checkpoint: bigint | undefined): Promise<bigint> {
    return callNative((callback) => this.#session.undo(checkpoint, callback));
  }

  hibernate(): Promise<Uint8Array> {
    return callNative((callback) => this.#session.hibernate(callback));
  }

  info(): Promise<string> {
    return callNative((callback) => this.#session.info(callback));
  }

  close(): Promise<void> {
    return callNative((callback) => this.#session.close(callback));
  }
}
