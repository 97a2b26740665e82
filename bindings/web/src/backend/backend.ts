// The backends of the page: a server, or a component in a worker.

/** The languages that the editor offers. */
export type Language = 'python' | 'javascript' | 'typescript';

/** The language of an interpreter. */
export type RuntimeLanguage = 'python' | 'javascript';

/** A description of a backend. */
export interface Info {
  /** The place where scripts run, in a few words. */
  where: string;
  /** The available interpreters. */
  runtimes: { language: RuntimeLanguage; version?: string }[];
  languages: readonly Language[];
  /** The default limits of an execution. */
  limits: Allowed;
  /** True if output arrives while a script runs. */
  streams: boolean;
  /** True if Python has the bundled packages. */
  packages: boolean;
}

/** The limits of one execution. */
export interface Allowed {
  fuel: number;
  timeoutMs: number;
  memoryBytes: number;
}

/** The state of a session that the page shows. */
export interface SessionInfo {
  id: string;
  language: RuntimeLanguage;
  executions: number;
}

/** A saved state of a session. */
export interface Checkpoint {
  id: number;
  automatic: boolean;
  /** The number of executions up to this state. */
  executions: number;
}

/** A file of a workspace. */
export interface FileInfo {
  path: string;
  sizeBytes: number;
}

/** A script to run, with its environment. */
export interface Script {
  source: string;
  language: Language;
  stdin: string;
  /**
   * The session to run in. Without a session, the script runs in a new interpreter with `files` and within `limits`.
   */
  session: string | undefined;
  files: ReadonlyMap<string, Uint8Array>;
  limits: Partial<Allowed>;
}

/** A piece of a script's output. */
export type Piece = { stream: 'stdout' | 'stderr'; text: string };

/** An execution in the JSON format of the contract, reduced to the fields that the page shows. */
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

/** An execution and, outside a session, the files that it left. */
export interface Done {
  execution: Execution;
  files?: Map<string, Uint8Array>;
  /** The number of files that were too large to return. */
  filesLeftOut: number;
}

/** A backend that runs scripts. Its methods reject with a `Problem` if they fail. */
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
