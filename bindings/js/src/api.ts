// The exports that the entry points of all platforms share.
export type { Diagnostic, Mount } from './backend.ts';
export type { ProviderModules } from './component/provider.ts';
export { Display } from './displays.ts';
export {
  CommitError,
  FilesError,
  GloveboxError,
  PolicyError,
  ScriptError,
  SessionError,
  SessionLostError,
  SuspensionError,
  TerminatedError,
  ToolDenied,
  UnavailableError,
  UnsupportedError,
} from './errors.ts';
export type { ExecuteOptions, Limits, ListenOptions, Network, ResumeOptions, SandboxOptions, Secret, SessionOptions, ValidateOptions } from './options.ts';
export { type FileEntry, type Guidance, Opaque, Outcome, type Rollback, Run, RunFiles, type ToolCall } from './run.ts';
export { Sandbox } from './sandbox.ts';
export { type Checkpoint, Session, SessionFiles, type SessionInfo, Variables } from './session.ts';
export type { Tool, ToolContext, ToolFunction, Tools } from './tools.ts';
export { type CallAnswers, type WaitingCall, WaitingRun } from './waiting.ts';
