// What one execution did.
import type { Entry, Executed, ShownValue } from './backend.ts';
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

/** A value of a script that JSON has no form for. */
export class Opaque {
  /** As the interpreter shows it. */
  readonly repr: string;

  constructor(repr: string) {
    this.repr = repr;
  }

  toString(): string {
    return this.repr;
  }
}

/** A value of a script in JavaScript. */
export function valueOf(value: ShownValue | undefined): unknown {
  if (value === undefined) return undefined;
  return value.json === undefined ? new Opaque(value.repr) : JSON.parse(value.json);
}

/** How a script ended. The fields beside `kind` are there if they belong to it. */
export class Outcome {
  /** Which it is. */
  declare readonly kind: 'completed' | 'exited' | 'raised' | 'exhausted' | 'cancelled' | 'trapped';
  /** `exited`: with this code. */
  declare readonly code?: number;
  /** `raised`: the exception's class; empty where the value thrown is no object. */
  declare readonly type?: string;
  /** `raised`: its message. */
  declare readonly message?: string;
  /** `raised`: as the interpreter prints it. */
  declare readonly traceback?: string;
  /** `raised`: the script's line, counted from 1, where that is known. */
  declare readonly line?: number;
  /** `exhausted`: what ran out. */
  declare readonly resource?: ResourceKind;
  /** `exhausted`: the limit, in the resource's unit. */
  declare readonly limit?: number;
  /** `exhausted`: what was used or asked for. */
  declare readonly used?: number;
  /** `trapped`: how the interpreter broke. */
  declare readonly trap?: TrapKind;

  constructor(record: object) {
    for (const [name, value] of Object.entries(record)) if (value !== null) Object.defineProperty(this, name, { value, enumerable: true });
  }

  /** As a shell has it. */
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
        return `out of ${this.resource}: ${this.used} of ${this.limit}`;
      case 'trapped':
        return `the interpreter broke: ${this.trap}`;
      default:
        return this.kind;
    }
  }
}

/** One call of a tool. */
export interface ToolCall {
  /** The name that the script called. */
  name: string;
  /** The arguments; `null` over `limits.toolRecordBytes`. */
  arguments: unknown;
  /** What it returned; `null` over `limits.toolRecordBytes`. */
  result: unknown;
  /** Why it returned nothing: the error's type, and what the script was told. */
  error?: string;
  /** When the script called, counted from the start of the execution. */
  startedMs: number;
  /** How long it took, its wait for a turn included. */
  durationMs: number;
}

/** Numbers for the contract's, in what is read of JSON. */
type Plain<T> = T extends bigint ? number : T extends object ? { [Key in keyof T]: Plain<T[Key]> } : T;

/** What it did with its fuel, and what can be done about a failure: for people, and for models that write scripts. */
export interface Guidance {
  /** What the fuel went into. */
  fuel: Plain<FuelAnalysis>;
  /** What can be done. */
  advice: (Omit<Plain<Advice>, 'correction'> & { correction?: Plain<Correction> })[];
}

/** The state that a session was rolled back to. */
export interface Rollback {
  /** The checkpoint. */
  checkpoint: number;
  /** How many executions before this one were undone too. */
  executionsLost: number;
}

/** A file, directory or link of a workspace. */
export interface FileEntry {
  /** Its path relative to `/app`. */
  path: string;
  /** Its kind. */
  kind: 'file' | 'directory' | 'symlink';
  /** The size of a file, or of a link's target; 0 for a directory. */
  sizeBytes: number;
  /** When it was last written to, in nanoseconds since 1970, by the policy's clock. */
  modifiedNs: bigint;
}

/** Entries as users see them. */
export function fileEntries(listed: Entry[]): FileEntry[] {
  return listed.map((entry) => ({ ...entry, sizeBytes: Number(entry.sizeBytes) }));
}

/** The workspace's files as an execution left them, read when asked for. In a session they are those of now. */
export class RunFiles {
  readonly #executed: Executed;

  constructor(executed: Executed) {
    this.#executed = executed;
  }

  /** What matches a pattern (`*.csv`, `src/**` and such): files, directories and links. Default: all. */
  async list(pattern = '**'): Promise<FileEntry[]> {
    return fileEntries(await this.#executed.listFiles(check.of('pattern', 'string', pattern)));
  }

  /** A file's contents. A `FilesError` where there is none. */
  async read(path: string): Promise<Uint8Array> {
    return this.#executed.readFile(check.of('path', 'string', path));
  }

  /** The same as text. */
  async readText(path: string): Promise<string> {
    return new TextDecoder().decode(await this.read(path));
  }
}

/** The names of the record in JavaScript's way, except within what scripts have made. */
function camel(value: unknown): any {
  if (Array.isArray(value)) return value.map(camel);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, one]) => one !== null);
  return Object.fromEntries(entries.map(([key, one]) => [key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), camel(one)]));
}

/** What one execution did, wrote, used and changed. */
export class Run {
  readonly #executed: Executed;
  #record: Record<string, any> | undefined;
  #displays: readonly Display[] | undefined;

  /** Made by `Sandbox.execute` and `Session.execute`. */
  constructor(executed: Executed) {
    this.#executed = executed;
  }

  get #all(): Record<string, any> {
    return (this.#record ??= JSON.parse(this.#executed.json()) as Record<string, any>);
  }

  /** Whether the script ran to its end, or exited with 0. */
  get ok(): boolean {
    return this.#executed.ok;
  }

  /** What it wrote to standard output, as text. */
  get stdout(): string {
    return this.#executed.stdout;
  }

  /** What it wrote to standard error, as text. Where a limit ended it, the last line names that. */
  get stderr(): string {
    return this.#executed.stderr;
  }

  /** What it wrote to standard output. */
  get stdoutBytes(): Uint8Array {
    return this.#executed.stdoutBytes;
  }

  /** What it wrote to standard error. */
  get stderrBytes(): Uint8Array {
    return this.#executed.stderrBytes;
  }

  /** Fuel used: about one unit for each instruction. Where the time limit or a cancellation ended it, a lower bound. */
  get fuelConsumed(): number {
    return Number(this.#executed.fuelConsumed);
  }

  /** In a session, the value of the script's last expression: an `Opaque` where JSON has no form for it. */
  get value(): unknown {
    return valueOf(this.#executed.value);
  }

  /** The same as the interpreter shows it. */
  get valueRepr(): string | undefined {
    return this.#executed.value?.repr;
  }

  /** What it showed, in order: pictures, tables, and in a session the value of its last expression where that has more than a text. */
  get displays(): readonly Display[] {
    return (this.#displays ??= this.#executed.displays.map((shown) => new Display(shown)));
  }

  /** How many displays `limits.displayBytes` or their number dropped. */
  get displaysDropped(): number {
    return this.#all['displays_dropped'];
  }

  /** The workspace's files as the execution left them. */
  get files(): RunFiles {
    return new RunFiles(this.#executed);
  }

  /** How it ended. */
  get outcome(): Outcome {
    return new Outcome(this.#all['outcome']);
  }

  /** The exception by which the script ended when it was asked to stop, shortly before it would have been unwound. */
  get interrupted(): Outcome | undefined {
    const raised = this.#all['interrupted'];
    return raised ? new Outcome({ kind: 'raised', ...raised }) : undefined;
  }

  /** Files that were not there before, sorted. */
  get filesCreated(): string[] {
    return [...this.#all['files_created']];
  }

  /** Files that were written to, sorted. */
  get filesModified(): string[] {
    return [...this.#all['files_modified']];
  }

  /** Files that are gone, sorted. */
  get filesDeleted(): string[] {
    return [...this.#all['files_deleted']];
  }

  /** Whether it wrote more than `limits.stdoutBytes`. */
  get stdoutTruncated(): boolean {
    return this.#all['stdout_truncated'];
  }

  /** Whether it wrote more than `limits.stderrBytes`. */
  get stderrTruncated(): boolean {
    return this.#all['stderr_truncated'];
  }

  /** The most memory in use. */
  get memoryUsedBytes(): number {
    return this.#all['memory_used_bytes'];
  }

  /** Wall-clock time of the script. */
  get durationMs(): number {
    return this.#all['duration_ms'];
  }

  /** The session, where there is one. */
  get sessionId(): string | undefined {
    return this.#all['session_id'] ?? undefined;
  }

  /** The state that the session was rolled back to, where the script had to be unwound. */
  get rolledBackTo(): Rollback | undefined {
    return camel(this.#all['rolled_back_to']) ?? undefined;
  }

  /** The calls of tools, in order. */
  get toolCalls(): ToolCall[] {
    return this.#all['tool_calls'].map(({ name, arguments: given, result, error, started_ms, duration_ms }: Record<string, any>) => ({
      name,
      arguments: given,
      result,
      ...(error && { error: [error.type, error.message].filter(Boolean).join(': ') }),
      startedMs: started_ms,
      durationMs: duration_ms,
    }));
  }

  /** What it did with its fuel, and what can be done about a failure. */
  get guidance(): Guidance {
    return camel(this.#all['guidance']);
  }

  /** What ran it, and under which limits. */
  get metadata(): Plain<Metadata> {
    return camel(this.#all['metadata']);
  }

  /** All of it but the files' contents: what `glovebox run --json` prints. */
  toJSON(): Record<string, any> {
    const displays = this.displays.map((shown) => ({ is_result: shown.isResult, data: shown.bundle() }));
    // A copy of the caller's own; it has the place of `displays` already.
    return { ...JSON.parse(this.#executed.json()), displays };
  }

  /** Throws `ScriptError` unless the script succeeded. Returns the run, so that calls can be chained. */
  throwForOutcome(): this {
    if (!this.ok) throw new ScriptError(this);
    return this;
  }
}
