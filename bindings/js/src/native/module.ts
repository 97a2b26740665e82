// The types and event numbers of the native module, `bindings/js/native`. Private to the package.
import type { CallAnswer, Input, BackendDisplay, ToolDescription } from '../backend.ts';
import type { Answer } from '../tools.ts';

/** Event numbers, which must equal the numbers in `native/src/threads.rs` and `native/src/execution.rs`. */
export const DONE = 0;
export const FAILED = 1;
export const STDOUT = 2;
export const STDERR = 3;
export const PROGRESS = 4;
export const WAITS = 5;

/** Receives an event number and its payload. The last event is `DONE`, `FAILED` or `WAITS`. */
export type Callback = (event: number, payload: any) => void;

/** Receives an execution's number, an event number and the event's payload. */
export type PortCallback = (execution: number, event: number, payload: any) => void;

/** The receiver of the events of executions. */
export interface NativePort {
  readonly kind?: 'port';
}

export interface NativeToken {
  cancel(): void;
}

export interface NativeExecution {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Uint8Array;
  readonly stderrBytes: Uint8Array;
  readonly fuelConsumed: bigint;
  readonly value: [repr: string, json: string | null] | null;
  readonly displays: BackendDisplay[];
  json(): string;
  listFiles(pattern: string, callback: Callback): void;
  readFile(path: string, callback: Callback): void;
}

export interface NativeFailure {
  class: string;
  message: string;
  execution?: NativeExecution;
}

export interface NativeInput extends Input {
  /** True if a listener receives the output. */
  isHeard: boolean;
}

/** A suspended execution, and the options of the request that resumes it. */
export interface NativeSuspended {
  state: Uint8Array;
  timeoutMs: number | undefined;
  isHeard: boolean;
}

/** A started execution. It is cancelled when it is dropped. */
export interface NativeStarted {
  readonly stdout: string;
  readonly stderr: string;
  advance(answers: CallAnswer[], port: NativePort, execution: number): void;
  suspend(callback: Callback): void;
}

export interface NativeSession {
  readonly id: string;
  readonly ended: string | null;
  execute(input: NativeInput, token: NativeToken, port: NativePort, execution: number): void;
  start(input: NativeInput, token: NativeToken, port: NativePort, execution: number): NativeStarted;
  startSuspended(suspended: NativeSuspended, token: NativeToken, port: NativePort, execution: number): NativeStarted;
  getVariable(name: string, callback: Callback): void;
  setVariable(name: string, json: string, callback: Callback): void;
  listFiles(pattern: string, callback: Callback): void;
  readFile(path: string, callback: Callback): void;
  writeFile(path: string, contents: Uint8Array, callback: Callback): void;
  deleteFile(path: string, recursive: boolean, callback: Callback): void;
  fork(id: string | undefined, context: string | undefined, callback: Callback): void;
  checkpoint(callback: Callback): void;
  checkpoints(callback: Callback): void;
  undo(checkpoint: bigint | undefined, callback: Callback): void;
  hibernate(callback: Callback): void;
  info(callback: Callback): void;
  close(callback: Callback): void;
}

export interface NativeSandbox {
  readonly language: 'python' | 'javascript';
  readonly runtimeName: string;
  readonly version: string | null;
  execute(input: NativeInput, token: NativeToken, port: NativePort, execution: number): void;
  start(input: NativeInput, token: NativeToken, port: NativePort, execution: number): NativeStarted;
  startSuspended(suspended: NativeSuspended, token: NativeToken, port: NativePort, execution: number): NativeStarted;
  suspendedCalls(state: Uint8Array, callback: Callback): void;
  resumeSuspendedSession(state: Uint8Array, id: string | undefined, callback: Callback): void;
  validate(input: NativeInput, token: NativeToken, callback: Callback): void;
  /** Returns the duration of each of `count` executions that a loop in Rust runs, in microseconds. */
  time(source: string, count: number): number[];
  session(id: string | undefined, context: string | undefined, callback: Callback): void;
  resume(state: Uint8Array, id: string | undefined, callback: Callback): void;
  reply(call: number, kind: Answer[0], text: string): void;
}

export interface NativeEngine {
  readonly kind?: 'engine';
}

export interface NativeModule {
  NativePort: new (callback: PortCallback) => NativePort;
  NativeToken: new () => NativeToken;
  NativeEngine: {
    open(
      options: { cacheDir?: string | undefined; bundles: string[]; prepared: string[]; images?: string | undefined; packages: boolean },
      callback: Callback,
    ): void;
  };
  NativeSandbox: {
    open(
      engine: NativeEngine,
      options: {
        name: string;
        policy: string;
        files: { path: string; contents: Uint8Array }[];
        tools: ToolDescription[];
      },
      token: NativeToken,
      answer: (call: number, tool: number, parameters: string | null) => void,
      callback: Callback,
    ): void;
  };
}
