import type { SandboxError as Failure } from './contract.ts';

/** The provider refused what was asked: nothing was executed. What a script does wrong is no error, but an outcome. */
export class SandboxError extends Error {
  override readonly name = 'SandboxError';
  /** Which of the contract's errors it is: `invalid-policy`, `source-too-large`, … */
  readonly tag: Failure['tag'];
  /** The error as the contract has it. */
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(`${failure.tag}: ${described(failure)}`);
    this.tag = failure.tag;
    this.failure = failure;
  }
}

function described({ val }: Failure): string {
  if (typeof val === 'string') return val;
  return 'limit' in val ? `${val.bytes} bytes, of at most ${val.limit}` : `${val.path}: ${val.message}`;
}

/**
 * The instance that a call was made in has trapped, and is gone with all that it held: its sessions have ended. The sandbox
 * goes on in a new instance, which the next call makes. Scripts that are over a limit do not cause this.
 */
export class InstanceLostError extends Error {
  override readonly name = 'InstanceLostError';
  /** The ids of the sessions that were lost. */
  readonly sessions: readonly string[];

  constructor(sessions: readonly string[], cause: unknown) {
    const several = sessions.length > 1 ? `the sessions ${sessions.join(', ')} were` : `the session ${sessions.join()} was`;
    const lost = sessions.length === 0 ? 'no session was' : several;
    super(`the sandbox's instance has trapped, and ${lost} lost with it`, { cause });
    this.sessions = sessions;
  }
}

/** Whether something that was thrown is an error of the contract. */
export function isFailure(thrown: unknown): thrown is Failure {
  return typeof thrown === 'object' && thrown !== null && !(thrown instanceof Error) && 'tag' in thrown;
}
