// The errors of the `run` package, which programs recognize by their codes.

const IS_RUN_ERROR = Symbol.for('vercel.run.error.RunError');

/** An error of an execution. */
export class RunError extends Error {
  readonly [IS_RUN_ERROR] = true;
  readonly code: string;
  readonly details: unknown;

  constructor(message: string, code = 'RUN_ERROR', details?: unknown) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.details = details;
  }

  /** Returns `true` for an error of this class, including the class of the `run` package. */
  static isInstance(error: unknown): error is RunError {
    return typeof error === 'object' && error !== null && IS_RUN_ERROR in error;
  }
}

/** The caller's signal was aborted. */
export class RunAbortedError extends RunError {
  constructor() {
    super('JavaScript runtime execution was aborted.', 'RUN_ABORTED');
  }
}

/** The source is longer than `limits.maxSourceBytes`. */
export class RunSourceTooLargeError extends RunError {
  constructor(bytes: number, maxBytes: number) {
    super(`JavaScript runtime source exceeds the ${maxBytes} byte size limit.`, 'RUN_SOURCE_TOO_LARGE', { bytes, maxBytes });
  }
}

/** The execution took longer than `limits.timeoutMs`. */
export class RunTimeoutError extends RunError {
  constructor(timeoutMs: number) {
    super(`JavaScript runtime execution timed out after ${timeoutMs}ms.`, 'RUN_TIMEOUT', { timeoutMs });
  }
}

/** The script made more calls than `limits.maxBridgeRequests`. */
export class RunBridgeLimitError extends RunError {
  constructor(message: string) {
    super(message, 'RUN_BRIDGE_LIMIT');
  }
}

/** A continuation is invalid, or the script behaves differently than before. */
export class RunProtocolError extends RunError {
  constructor(message: string, details?: unknown) {
    super(message, 'RUN_PROTOCOL_ERROR', details);
  }
}
