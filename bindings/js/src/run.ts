// The result of one execution.
import type { Entry, BackendExecution, ShownValue } from './backend.ts';
import * as check from './check.ts';
import type {
  Advice,
  Correction,
  FuelAnalysis,
  Metadata,
  ResourceKind,
  TrapKind,
} from './component/contract.ts';
import { Display } from './displays.ts';
import { ScriptError } from './errors.ts';
import { parseJson } from './json.ts';

/** A script's value that JSON cannot represent. */
export class Opaque {
  /** The value as the interpreter prints it. */
  readonly repr: string;

  constructor(repr: string) {
    this.repr = repr;
  }

  toString(): string {
    return this.repr;
  }
}

/** Converts a script's value to a JavaScript value. Throws a `RangeError` for an integer with too many digits. */
export function valueOf(value: ShownValue | undefined): unknown {
  if (value === undefined) return undefined;
  return value.json === undefined ? new Opaque(value.repr) : parseJson(value.json);
}

const UNITS: Record<ResourceKind, string> = { fuel: 'units', time: 'ms', memory: 'bytes' };

/** The way in which a script ended. The fields other than `kind` depend on the kind. */
export class Outcome {
  /** The kind of outcome. */
  declare readonly kind: 'completed' | 'exited' | 'raised' | 'exhausted' | 'cancelled' | 'trapped';
  /** `exited`: the exit code. */
  declare readonly code?: number;
  /** `raised`: the exception's class; empty if the thrown value is not an object. */
  declare readonly type?: string;
  /** `raised`: the exception's message. */
  declare readonly message?: string;
  /** `raised`: the traceback as the interpreter prints it. */
  declare readonly traceback?: string;
  /** `raised`: the line in the script, counted from 1, if known. */
  declare readonly line?: number;
  /** `exhausted`: the exhausted resource. */
  declare readonly resource?: ResourceKind;
  /** `exhausted`: the limit, in the resource's unit. */
  declare readonly limit?: number;
  /** `exhausted`: the amount that was used or requested, in the same unit. */
  declare readonly used?: number;
  /** `trapped`: the cause of the trap. */
  declare readonly trap?: TrapKind;

  constructor(record: object) {
    for (const [name, value] of Object.entries(record)) if (value !== null) Object.defineProperty(this, name, { value, enumerable: true });
  }

  /** The exit code by shell convention, for example 124 after a timeout. */
  get exitCode(): number {
    if (this.kind === 'exhausted') return this.resource === 'time' ? 124 : 137;
    return this.code ?? { completed: 0, exited: 0, raised: 1, cancelled: 130, trapped: 134 }[this.kind];
  }

  toString(): string {
    switch (this.kind) {
      case 'exited':
        return `exited with ${this.code}`;
      case 'raised':
        return this.type ? `${this.type}: ${this.message}` : `threw ${this.message}`;
      case 'exhausted':
        return `out of ${this.resource}: used ${this.used} of ${this.limit} ${this.resource && UNITS[this.resource]}`;
      case 'trapped':
        return `the interpreter trapped: ${this.trap}`;
      default:
        return this.kind;
    }
  }
}

/** A tool call. Integers outside ±(2^53 − 1) in its arguments and result are bigints. */
export interface ToolCall {
  /** The name of the called tool. */
  name: string;
  /** The arguments; `null` if they exceed `limits.toolRecordBytes`. */
  arguments: unknown;
  /** The result; `null` if it exceeds `limits.toolRecordBytes`. */
  result: unknown;
  /** The reason for a failed call: the type and message of the error that the script received. */
  error?: string;
  /** The time of the call, in milliseconds from the start of the execution. */
  startedMs: number;
  /** The duration in milliseconds, including the wait in the queue. */
  durationMs: number;
}

/** A type of the contract with numbers in place of bigints, for data read from JSON. */
type Plain<T> = T extends bigint ? number : T extends object ? { [Key in keyof T]: Plain<T[Key]> } : T;

/** An execution's fuel use and advice on its failure, for people and for models that write scripts. */
export interface Guidance {
  /** The fuel that the execution used, in relation to its limit. */
  fuel: Plain<FuelAnalysis>;
  /** Advice on the failure; empty if there is no advice for it. */
  advice: (Omit<Plain<Advice>, 'correction'> & { correction?: Plain<Correction> })[];
}

/** The state that a session was rolled back to. */
export interface Rollback {
  /** The checkpoint's ID. */
  checkpoint: number;
  /** The number of earlier executions that were also undone. */
  executionsLost: number;
}

/** A file, directory or link in a workspace. */
export interface FileEntry {
  /** The path relative to `/app`. */
  path: string;
  /** The type of the entry. */
  kind: 'file' | 'directory' | 'symlink';
  /** The size of a file, or the length of a link's target path, in bytes; 0 for a directory. */
  sizeBytes: number;
  /** The modification time in nanoseconds since 1970, by the policy's clock. */
  modifiedNs: bigint;
}

/** Converts file entries to their public form. */
export function fileEntries(listed: Entry[]): FileEntry[] {
  return listed.map((entry) => ({ ...entry, sizeBytes: Number(entry.sizeBytes) }));
}

/**
 * The workspace's files as the execution left them, read on demand. In a session, they are the session's current files.
 */
export class RunFiles {
  readonly #executed: BackendExecution;

  constructor(executed: BackendExecution) {
    this.#executed = executed;
  }

  /** Lists the files, directories and links that match a pattern (`*.csv`, `src/**`). Default: all. */
  async list(pattern = '**'): Promise<FileEntry[]> {
    return fileEntries(await this.#executed.listFiles(check.of('pattern', 'string', pattern)));
  }

  /** Returns a file's contents. Throws `FilesError` if the file does not exist. */
  async read(path: string): Promise<Uint8Array> {
    return this.#executed.readFile(check.of('path', 'string', path));
  }

  /** Returns a file's contents as text. Throws `FilesError` if the file does not exist. */
  async readText(path: string): Promise<string> {
    return new TextDecoder().decode(await this.read(path));
  }
}

/** Converts the keys of a record to camel case, recursively, and omits null fields. */
function camel(value: unknown): any {
  if (Array.isArray(value)) return value.map(camel);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, one]) => one !== null);
  return Object.fromEntries(entries.map(([key, one]) => [key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), camel(one)]));
}

/** An execution's outcome, output, resource use and changes. */
export class Run {
  readonly #executed: BackendExecution;
  #record: Record<string, any> | undefined;
  #toolCalls: Record<string, any>[] | undefined;
  #displays: readonly Display[] | undefined;

  /** Use `Sandbox.execute` or `Session.execute` to obtain instances. */
  constructor(executed: BackendExecution) {
    this.#executed = executed;
  }

  get #all(): Record<string, any> {
    return (this.#record ??= JSON.parse(this.#executed.json()) as Record<string, any>);
  }

  /** True if the script ran to its end, or exited with code 0. */
  get ok(): boolean {
    return this.#executed.ok;
  }

  /** Standard output as text. */
  get stdout(): string {
    return this.#executed.stdout;
  }

  /** Standard error as text. If a limit stopped the script, the last line names the limit. */
  get stderr(): string {
    return this.#executed.stderr;
  }

  /** Standard output as bytes. */
  get stdoutBytes(): Uint8Array {
    return this.#executed.stdoutBytes;
  }

  /** Standard error as bytes. */
  get stderrBytes(): Uint8Array {
    return this.#executed.stderrBytes;
  }

  /** Fuel used: about one unit per instruction. A lower bound if a timeout or a cancellation stopped the script. */
  get fuelConsumed(): number {
    return Number(this.#executed.fuelConsumed);
  }

  /**
   * In a session, the value of the script's last expression, or an `Opaque` if JSON cannot represent the value. Integers
   * outside ±(2^53 − 1) are bigints.
   */
  get value(): unknown {
    return valueOf(this.#executed.value);
  }

  /** The value of the script's last expression as the interpreter prints it. */
  get valueRepr(): string | undefined {
    return this.#executed.value?.repr;
  }

  /**
   * The script's displays, in order: images, tables and, in a session, the value of the last expression if it has a
   * form other than text.
   */
  get displays(): readonly Display[] {
    return (this.#displays ??= this.#executed.displays.map((shown) => new Display(shown)));
  }

  /** The number of displays that were dropped because of `limits.displayBytes` or the maximum number of displays. */
  get displaysDropped(): number {
    return this.#all['displays_dropped'];
  }

  /** The workspace's files as the execution left them. */
  get files(): RunFiles {
    return new RunFiles(this.#executed);
  }

  /** The way in which the script ended. */
  get outcome(): Outcome {
    return new Outcome(this.#all['outcome']);
  }

  /**
   * The exception that ended the script after the soft limit or a cancellation interrupted it; otherwise `undefined`.
   */
  get interrupted(): Outcome | undefined {
    const raised = this.#all['interrupted'];
    return raised ? new Outcome({ kind: 'raised', ...raised }) : undefined;
  }

  /** Created files, sorted. */
  get filesCreated(): string[] {
    return [...this.#all['files_created']];
  }

  /** Modified files, sorted. */
  get filesModified(): string[] {
    return [...this.#all['files_modified']];
  }

  /** Deleted files, sorted. */
  get filesDeleted(): string[] {
    return [...this.#all['files_deleted']];
  }

  /** True if the script wrote more than `limits.stdoutBytes`. */
  get stdoutTruncated(): boolean {
    return this.#all['stdout_truncated'];
  }

  /** True if the script wrote more than `limits.stderrBytes`. */
  get stderrTruncated(): boolean {
    return this.#all['stderr_truncated'];
  }

  /** Peak memory use, in bytes. */
  get memoryUsedBytes(): number {
    return this.#all['memory_used_bytes'];
  }

  /** The script's wall-clock time, in milliseconds. */
  get durationMs(): number {
    return this.#all['duration_ms'];
  }

  /** The session's ID, if the script ran in a session. */
  get sessionId(): string | undefined {
    return this.#all['session_id'] ?? undefined;
  }

  /** The state that the session was rolled back to, if the script was unwound. */
  get rolledBackTo(): Rollback | undefined {
    return camel(this.#all['rolled_back_to']) ?? undefined;
  }

  /** The tool calls, in order. */
  get toolCalls(): ToolCall[] {
    this.#toolCalls ??= parseJson(this.#executed.json())['tool_calls'] as Record<string, any>[];
    return this.#toolCalls.map(({ name, arguments: given, result, error, started_ms, duration_ms }) => ({
      name: name as string,
      arguments: given,
      result,
      ...(error && { error: [error.type, error.message].filter(Boolean).join(': ') }),
      startedMs: started_ms,
      durationMs: duration_ms,
    }));
  }

  /** The fuel use and advice on a failure. */
  get guidance(): Guidance {
    return camel(this.#all['guidance']);
  }

  /** The runtime that ran the script. */
  get metadata(): Plain<Metadata> {
    return camel(this.#all['metadata']);
  }

  /**
   * Returns the run without the files' contents, in the format of `glovebox run --json`. Large integers are rounded to
   * numbers, because `JSON.stringify` rejects bigints.
   */
  toJSON(): Record<string, any> {
    const displays = this.displays.map((shown) => ({ is_result: shown.isResult, data: shown.bundle() }));
    // Each call returns a new copy. The JSON already has an entry for `displays`, which keeps its position.
    return { ...JSON.parse(this.#executed.json()), displays };
  }

  /** Throws `ScriptError` unless the script succeeded. Returns the run, so that calls can be chained. */
  throwForOutcome(): this {
    if (!this.ok) throw new ScriptError(this);
    return this;
  }
}
