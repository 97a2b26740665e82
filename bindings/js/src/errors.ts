// What the package throws. What a script does wrong is no error but an outcome; `Run.throwForOutcome` makes an error of it.
import type { Run } from './run.ts';

/** Any error of this package but a `TypeError`, which an argument of the wrong type is. */
export class GloveboxError extends Error {
  override readonly name: string = 'GloveboxError';
}

/** What was asked for cannot be: a limit, a mount, a tool, a runtime's name, a source over its limit. Nothing was executed. */
export class PolicyError extends GloveboxError {
  override readonly name = 'PolicyError';
}

/** The sandbox or an instance of it is not to be had on this machine now. The message says what to do. */
export class UnavailableError extends GloveboxError {
  override readonly name = 'UnavailableError';
}

/** The backend cannot do this. The message says which can, or what to do instead. */
export class UnsupportedError extends GloveboxError {
  override readonly name = 'UnsupportedError';
}

/** A session has ended, has no such checkpoint or variable, or cannot be resumed. Nothing was changed. */
export class SessionError extends GloveboxError {
  override readonly name: string = 'SessionError';
}

/**
 * A session's interpreter is gone: its worker was terminated, because a script did not heed its interruption or the sandbox was closed, or
 * its instance broke. The sandbox goes on in a new one.
 */
export class SessionLostError extends SessionError {
  override readonly name = 'SessionLostError';
}

/**
 * A script in a worker did not heed its interruption, and the worker was terminated: what it did is not known. A component without a clock
 * heeds none.
 */
export class TerminatedError extends GloveboxError {
  override readonly name = 'TerminatedError';
}

/** An operation on a workspace's files was refused. The workspace is as it was. */
export class FilesError extends GloveboxError {
  override readonly name = 'FilesError';
}

/** A script ran, but its files could not be brought to the host's directory; nothing there has changed. */
export class CommitError extends GloveboxError {
  override readonly name = 'CommitError';
  /** What the script did all the same. */
  readonly run: Run;

  constructor(message: string, run: Run) {
    super(message);
    this.run = run;
  }
}

/** A script did not succeed: thrown by `Run.throwForOutcome` and by nothing else. */
export class ScriptError extends GloveboxError {
  override readonly name = 'ScriptError';
  /** What it did. */
  readonly run: Run;

  constructor(run: Run) {
    super(run.outcome.toString());
    this.run = run;
  }
}

const CLASSES = { PolicyError, UnavailableError, UnsupportedError, SessionError, SessionLostError, TerminatedError, FilesError };

/** The name of a class that a backend can fail with. */
export type FailureClass = keyof typeof CLASSES;

/** An error of the class of this name. */
export function errorOf(name: FailureClass, message: string, cause?: unknown): GloveboxError {
  return new CLASSES[name](message, cause === undefined ? undefined : { cause });
}
