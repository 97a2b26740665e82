// The backend interface, on which `Sandbox` and `Session` are built. Script values are text, bytes or JSON.
import type { Cancel } from './cancel.ts';
import type { Answer } from './tools.ts';

/** The kinds of backends. */
export type BackendKind = 'native' | 'component' | 'daemon' | 'unsafe-native';

/** A host directory that scripts can access. */
export interface Mount {
  /** The directory's path on the host. */
  host: string;
  /** Makes the directory read-only for scripts. Default: false. */
  readOnly?: boolean;
}

/** A tool's description for scripts. */
export interface ToolDescription {
  name: string;
  description: string;
  schema: string;
  /** True if the caller of `Sandbox.start`, not a function, answers the calls. */
  waits: boolean;
}

/** The validated options of a sandbox: the permissions and inputs of its scripts. */
export interface Policy {
  limits: Record<string, bigint>;
  workspace: string | undefined;
  commit: 'always' | 'on-success' | 'never';
  mounts: [string, Required<Mount>][];
  tools: ToolDescription[];
  files: [string, Uint8Array][];
  env: [string, string][];
  args: string[];
  seed: bigint | undefined;
  clockNs: bigint | undefined;
  checkpoints: 'auto' | 'always' | 'never' | bigint | undefined;
  onUnwind: 'roll-back' | 'end' | undefined;
  autoPersistGlobals: boolean;
  metering: 'fuel' | 'none';
  packages: boolean | undefined;
  network: NetworkRecord | undefined;
}

/** The validated network permissions of scripts. */
export interface NetworkRecord {
  allow: string[];
  allowPrivate: string[];
  methods: string[] | undefined;
  secrets: [string, { env: string; host: string }][];
  numbers: [string, bigint][];
}

/** The callbacks of a backend. */
export interface Host {
  /** Answers a call to the tool with this index. */
  answer(index: number, parameters: string, signal: AbortSignal): Promise<Answer>;
  /** Answers a tool call synchronously, for backends that cannot wait. */
  answerNow(index: number, parameters: string): Answer;
  /** Reports a slow step, such as preparing an interpreter. */
  progress(text: string): void;
}

/** The input of one execution. */
export interface Input {
  source: string;
  name: string | undefined;
  kind: 'detect' | 'script' | 'module' | undefined;
  stdin: Uint8Array | undefined;
  /** The value of the global variable `context`, as JSON text. */
  context: string | undefined;
  timeoutMs: number | undefined;
}

/** The cancellation handle and the output listener of an execution. */
export interface ExecutionHooks {
  /** Cancels the execution: the script is interrupted first, then stopped by force. */
  cancel: Cancel;
  /** Called with each chunk of the script's output. */
  output: ((isStderr: boolean, bytes: Uint8Array) => void) | undefined;
}

/** An entry of a file listing. */
export interface Entry {
  path: string;
  kind: 'file' | 'directory' | 'symlink';
  sizeBytes: bigint;
  modifiedNs: bigint;
}

/** A message of the language's own parser, or of the type checker. */
export interface Diagnostic {
  /** The line, counted from 1. */
  line: number;
  /** The column in code points, counted from 1. */
  column: number;
  /** A description of the fault, in the words of the parser or the type checker. */
  message: string;
}

/** A value as the interpreter prints it, and as JSON text if it has a JSON form. */
export interface ShownValue {
  repr: string;
  json?: string | undefined;
}

/** A display: its forms by media type. */
export interface BackendDisplay {
  isResult: boolean;
  forms: readonly (readonly [mediaType: string, data: Uint8Array])[];
}

/** The result of an execution. */
export interface BackendExecution {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Uint8Array;
  readonly stderrBytes: Uint8Array;
  readonly fuelConsumed: bigint;
  readonly value: ShownValue | undefined;
  readonly displays: readonly BackendDisplay[];
  /** Returns the result in the format of `glovebox run --json`, without displays, which may be large. */
  json(): string;
  listFiles(pattern: string): Promise<Entry[]>;
  readFile(path: string): Promise<Uint8Array>;
}

/** A tool call that waits for the caller's answer. The arguments are JSON text. */
export interface RequestedCall {
  id: number;
  name: string;
  arguments: string;
}

/** The caller's answer to a tool call. `text` is the result as JSON text, or the message of the failure. */
export interface CallAnswer {
  call: number;
  kind: Answer[0];
  text: string;
}

/** A started execution that waits for answers. */
export interface BackendWaiting {
  readonly calls: readonly RequestedCall[];
  /** Standard output so far. */
  readonly stdout: string;
  /** Standard error so far. */
  readonly stderr: string;
  answer(answers: CallAnswer[], hooks: ExecutionHooks): Promise<BackendStep>;
  suspend(): Promise<Uint8Array>;
  cancel(): void;
}

/** A started execution after a step: its result, or the calls that it waits for. */
export type BackendStep = BackendExecution | BackendWaiting;

/** An interpreter that persists between executions. */
export interface BackendSession {
  readonly id: string;
  readonly ended: string | undefined;
  execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution>;
  /** Validates a script for the session. Absent if the backend does not support validation in sessions. */
  validate?(input: Input, types: boolean): Promise<Diagnostic[]>;
  getVariable(name: string): Promise<ShownValue | undefined>;
  setVariable(name: string, json: string): Promise<void>;
  listFiles(pattern: string): Promise<Entry[]>;
  readFile(path: string): Promise<Uint8Array>;
  writeFile(path: string, contents: Uint8Array): Promise<void>;
  deleteFile(path: string, recursive: boolean): Promise<void>;
  fork(id: string | undefined, context: string | undefined): Promise<BackendSession>;
  checkpoint(): Promise<bigint>;
  checkpoints(): Promise<string>;
  undo(checkpoint: bigint | undefined): Promise<bigint>;
  hibernate(): Promise<Uint8Array>;
  info(): Promise<string>;
  close(): Promise<void>;
}

/** A backend's implementation of a sandbox. */
export interface Backend {
  readonly language: 'python' | 'javascript';
  readonly runtimeName: string;
  readonly version: string | undefined;
  execute(input: Input, hooks: ExecutionHooks): Promise<BackendExecution>;
  validate(input: Input): Promise<Diagnostic[]>;
  /** Checks the syntax of a Python script, and then its types. Absent if the backend does not check types. */
  checkTypes?(input: Input): Promise<Diagnostic[]>;
  session(id: string | undefined, context: string | undefined): Promise<BackendSession>;
  resume(state: Uint8Array, id: string | undefined): Promise<BackendSession>;
  close(): Promise<void>;
}

/** A sandbox or a session whose executions can wait for answers from the caller. */
export interface Startable {
  start(input: Input, hooks: ExecutionHooks): Promise<BackendStep>;
  /** Repeats a suspended execution until it waits for the same calls. */
  startSuspended(state: Uint8Array, timeoutMs: number | undefined, hooks: ExecutionHooks): Promise<BackendStep>;
}

/** A backend's sandbox whose executions can wait for answers from the caller. */
export interface StartableBackend extends Backend, Startable {
  /** Returns the calls that a suspended execution waits for. */
  suspendedCalls(state: Uint8Array): Promise<RequestedCall[]>;
  /** Restores the session of a suspended execution, in its state before the execution. */
  resumeSuspendedSession(state: Uint8Array, id: string | undefined): Promise<BackendSession>;
}
