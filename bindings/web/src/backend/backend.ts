// What runs the scripts of the page: a server, or a component in a worker.

/** What a script may be written in here. */
export type Language = 'python' | 'javascript' | 'typescript';

/** The language of an interpreter. */
export type RuntimeLanguage = 'python' | 'javascript';

/** What there is. */
export interface Info {
  /** Who runs the scripts, in a few words. */
  where: string;
  /** The interpreters. */
  runtimes: { language: RuntimeLanguage; version?: string }[];
  languages: readonly Language[];
  /** What one execution may use at most, where it asks for nothing else. */
  limits: Allowed;
  /** Whether output comes while a script runs. */
  streams: boolean;
  /** Whether Python finds the packages. */
  packages: boolean;
}

/** What one execution may use. */
export interface Allowed {
  fuel: number;
  timeoutMs: number;
  memoryBytes: number;
}

/** A session. */
export interface SessionInfo {
  id: string;
  language: RuntimeLanguage;
  executions: number;
}

/** A state that a session can be set back to. */
export interface Checkpoint {
  id: number;
  automatic: boolean;
  /** How many executions led to it. */
  executions: number;
}

/** A file of a workspace. */
export interface FileInfo {
  path: string;
  sizeBytes: number;
}

/** What is run. */
export interface Script {
  source: string;
  language: Language;
  stdin: string;
  /** In this session; without one, in a new interpreter with `files` and within `limits`. */
  session: string | undefined;
  files: ReadonlyMap<string, Uint8Array>;
  limits: Partial<Allowed>;
}

/** A piece of output. */
export type Piece = { stream: 'stdout' | 'stderr'; text: string };

/** What an execution did, as the contract's JSON has it; only what the page shows. */
export interface Execution {
  success: boolean;
  outcome: Record<string, unknown> & { kind: string };
  value: { repr: string } | null;
  stdout: string;
  stderr: string;
  stdout_truncated: boolean;
  stderr_truncated: boolean;
  displays: { is_result: boolean; data: Record<string, string> }[];
  displays_dropped: number;
  fuel_consumed: number;
  memory_used_bytes: number;
  duration_ms: number;
  files_created: string[];
  files_modified: string[];
  files_deleted: string[];
  rolled_back_to: { executions_lost?: number } | null;
  guidance?: { advice?: { problem?: string; solution?: string; [name: string]: unknown }[] };
}

/** An execution, and outside of a session the files that it left. */
export interface Done {
  execution: Execution;
  files?: Map<string, Uint8Array>;
  /** How many files did not come back. */
  filesLeftOut: number;
}

/** What runs scripts. Whatever fails throws a `Problem`. */
export interface Backend {
  info(): Promise<Info>;
  run(script: Script, onPiece: (piece: Piece) => void, signal: AbortSignal): Promise<Done>;
  sessions(): Promise<SessionInfo[]>;
  open(id: string, language: RuntimeLanguage): Promise<SessionInfo>;
  fork(id: string, as: string): Promise<SessionInfo>;
  close(id: string): Promise<void>;
  checkpoint(id: string): Promise<void>;
  checkpoints(id: string): Promise<Checkpoint[]>;
  undo(id: string, checkpoint: number | undefined): Promise<void>;
  files(id: string): Promise<FileInfo[]>;
  readFile(id: string, path: string): Promise<Uint8Array>;
  writeFile(id: string, path: string, contents: Uint8Array): Promise<void>;
  deleteFile(id: string, path: string): Promise<void>;
}
