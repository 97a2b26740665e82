import type { SandboxError as Failure } from './contract.ts';

/**
 * The provider returned an error. Nothing was executed, with two exceptions. The tag `variable` means that code in the
 * guest failed, and a started execution can also fail after its script has run. A script's failure is an outcome, not
 * an error.
 */
export class SandboxError extends Error {
  override readonly name = 'SandboxError';
  /** The case of the contract's `sandbox-error`: `invalid-policy`, `source-too-large`, … */
  readonly tag: Failure['tag'];
  /** The error in the contract's form. */
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(`${failure.tag}: ${described(failure)}`);
    this.tag = failure.tag;
    this.failure = failure;
  }
}

function described({ val }: Failure): string {
  if (typeof val === 'string') return val;
  return 'limit' in val ? `${val.bytes} bytes; the maximum is ${val.limit}` : `${val.path}: ${val.message}`;
}

/**
 * The instance that executed a call has trapped, and its sessions have ended. The next call creates a new instance.
 * Scripts that exceed a limit do not cause this error.
 */
export class InstanceLostError extends Error {
  override readonly name = 'InstanceLostError';
  /** The IDs of the lost sessions. */
  readonly sessions: readonly string[];

  constructor(sessions: readonly string[], cause: unknown) {
    const several = sessions.length > 1 ? `the sessions ${sessions.join(', ')} were` : `the session ${sessions.join()} was`;
    const lost = sessions.length === 0 ? 'no session was' : several;
    super(`the sandbox's instance has trapped, and ${lost} lost with it`, { cause });
    this.sessions = sessions;
  }
}

/** Returns `true` if a thrown value is an error of the contract. */
export function isFailure(thrown: unknown): thrown is Failure {
  return typeof thrown === 'object' && thrown !== null && !(thrown instanceof Error) && 'tag' in thrown;
}
