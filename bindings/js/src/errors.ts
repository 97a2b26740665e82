// The errors of the package. A script's failure is an outcome, not an error; `Run.throwForOutcome` turns it into an
// error.
import type { Run } from './run.ts';

/** The base of this package's errors. An invalid argument is a `TypeError` or a `RangeError` instead. */
export class GloveboxError extends Error {
  override readonly name: string = 'GloveboxError';
}

/**
 * The request is invalid: a limit, a mount, a tool, a runtime name, or a source that exceeds its limit. Nothing was
 * executed.
 */
export class PolicyError extends GloveboxError {
  override readonly name = 'PolicyError';
}

/** The sandbox, or an instance of it, is currently unavailable. The message suggests a remedy. */
export class UnavailableError extends GloveboxError {
  override readonly name = 'UnavailableError';
}

/** The backend does not support the request. The message names an alternative, such as another backend. */
export class UnsupportedError extends GloveboxError {
  override readonly name = 'UnsupportedError';
}

/**
 * A session has ended, is busy or cannot be resumed, its chosen ID is in use, or a checkpoint or variable does not
 * exist. Nothing was changed.
 */
export class SessionError extends GloveboxError {
  override readonly name: string = 'SessionError';
}

/**
 * A session's interpreter is lost: its worker was terminated, its instance trapped, or its sandbox was closed. After a
 * termination or a trap, the sandbox continues in a new instance.
 */
export class SessionLostError extends SessionError {
  override readonly name = 'SessionLostError';
}

/**
 * A script in a worker ignored an interrupt, or could not be interrupted because no memory is shared with the worker.
 * The worker was terminated, and the script's effects are unknown. A component without a clock ignores all interrupts.
 */
export class TerminatedError extends GloveboxError {
  override readonly name = 'TerminatedError';
}

/**
 * A run cannot be suspended, or a suspended run cannot be resumed. A resumption fails if the bytes are damaged or need
 * another interpreter, or if the script behaves differently than before its suspension.
 */
export class SuspensionError extends GloveboxError {
  override readonly name = 'SuspensionError';
}

/** An operation on workspace files failed. The workspace is unchanged. */
export class FilesError extends GloveboxError {
  override readonly name = 'FilesError';
}

/**
 * A script ran, but its files could not be committed to the host directory. The message says whether the directory is
 * unchanged.
 */
export class CommitError extends GloveboxError {
  override readonly name = 'CommitError';
  /** The run whose files were not committed. */
  readonly run: Run;

  constructor(message: string, run: Run) {
    super(message);
    this.run = run;
  }
}

/**
 * Thrown by a tool when a person or a policy refuses the call. The script receives `tools.ToolDenied` with the same
 * message. This package never throws it.
 */
export class ToolDenied extends Error {
  override readonly name = 'ToolDenied';
}

/** A script did not succeed. Thrown only by `Run.throwForOutcome`. */
export class ScriptError extends GloveboxError {
  override readonly name = 'ScriptError';
  /** The failed run. */
  readonly run: Run;

  constructor(run: Run) {
    super(run.outcome.toString());
    this.run = run;
  }
}

const CLASSES = {
  PolicyError,
  UnavailableError,
  UnsupportedError,
  SessionError,
  SessionLostError,
  SuspensionError,
  TerminatedError,
  FilesError,
};

/** The error classes that a backend can report. */
export type FailureClass = keyof typeof CLASSES;

/** Creates an error of the named class. */
export function errorOf(name: FailureClass, message: string, cause?: unknown): GloveboxError {
  return new CLASSES[name](message, cause === undefined ? undefined : { cause });
}

/** Creates the error for a type check of scripts in this language, which the backend does not support. */
export function unsupportedTypes(language: 'python' | 'javascript', backend: string): GloveboxError {
  const reason =
    language === 'python'
      ? `backend: "${backend}" checks no types; use backend: "daemon" with \`glovebox daemon --types\``
      : 'type checks support only Python; for JavaScript, use `TypeChecker` of `glovebox-sandbox/typescript`';
  return errorOf('UnsupportedError', `types: ${reason}`);
}
