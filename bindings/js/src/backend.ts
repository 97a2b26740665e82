// What a backend is: what `Sandbox` and `Session` are made of. Values cross as text, bytes and JSON.
import type { Cancel } from './cancel.ts';
import type { Answer } from './tools.ts';

/** What a backend is. */
export type BackendKind = 'native' | 'component' | 'daemon' | 'unsafe-native';

/** A directory of the host that scripts see. */
export interface Mount {
  /** The directory. */
  host: string;
  /** Whether scripts may only read it. Default: false. */
  readOnly?: boolean;
}

/** A tool as a backend describes it to scripts. */
export interface ToolDescription {
  name: string;
  description: string;
  schema: string;
}

/** Everything that a sandbox's scripts may do, checked for types. */
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

/** What scripts may reach of the network, checked for types. */
export interface NetworkRecord {
  allow: string[];
  allowPrivate: string[];
  methods: string[] | undefined;
  secrets: [string, { env: string; host: string }][];
  numbers: [string, bigint][];
}

/** What a backend calls while it works. */
export interface Host {
  /** Answers the call of the tool of this index. */
  answer(index: number, parameters: string, signal: AbortSignal): Promise<Answer>;
  /** The same at once, where nothing can wait. */
  answerNow(index: number, parameters: string): Answer;
  /** Told of what takes long. */
  progress(text: string): void;
}

/** One execution's input. */
export interface Input {
  source: string;
  name: string | undefined;
  kind: 'detect' | 'script' | 'module' | undefined;
  stdin: Uint8Array | undefined;
  /** JSON text. */
  context: string | undefined;
  timeoutMs: number | undefined;
}

/** What goes along with an execution. */
export interface Attendant {
  /** Cancels it: the script is asked to stop, then stopped. */
  cancel: Cancel;
  /** Called with what the script writes. */
  output: ((isStderr: boolean, bytes: Uint8Array) => void) | undefined;
}

/** A file as it is listed. */
export interface Entry {
  path: string;
  kind: 'file' | 'directory' | 'symlink';
  sizeBytes: bigint;
  modifiedNs: bigint;
}

/** A message of the language's parser. */
export interface Diagnostic {
  /** The line, counted from 1. */
  line: number;
  /** The column in code points, counted from 1. */
  column: number;
  /** The parser's message. */
  message: string;
}

/** A value as the interpreter shows it, and as JSON text where there is such. */
export interface ShownValue {
  repr: string;
  json?: string | undefined;
}

/** What a script has shown: its forms, by media type. */
export interface Shown {
  isResult: boolean;
  forms: readonly (readonly [mediaType: string, data: Uint8Array])[];
}

/** What an execution did. */
export interface Executed {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: Uint8Array;
  readonly stderrBytes: Uint8Array;
  readonly fuelConsumed: bigint;
  readonly value: ShownValue | undefined;
  readonly displays: readonly Shown[];
  /** All of it as `glovebox run --json` prints it, with no displays: those may be large. */
  json(): string;
  listFiles(pattern: string): Promise<Entry[]>;
  readFile(path: string): Promise<Uint8Array>;
}

/** An interpreter that persists. */
export interface BackendSession {
  readonly id: string;
  readonly ended: string | undefined;
  execute(input: Input, attendant: Attendant): Promise<Executed>;
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

/** A sandbox. */
export interface Backend {
  readonly language: 'python' | 'javascript';
  readonly runtimeName: string;
  readonly version: string | undefined;
  execute(input: Input, attendant: Attendant): Promise<Executed>;
  validate(input: Input): Promise<Diagnostic[]>;
  session(id: string | undefined, context: string | undefined): Promise<BackendSession>;
  resume(state: Uint8Array, id: string | undefined): Promise<BackendSession>;
  /** Gives back what it holds. */
  close(): Promise<void>;
}
