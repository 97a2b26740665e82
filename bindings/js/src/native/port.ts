/// <reference types="node" />
// Receives the events of this thread's executions. The native module calls one callback for all of them.
import type { RequestedCall } from '../backend.ts';
import { DONE, FAILED, type NativeExecution, type NativeFailure, type NativeModule, type NativePort, STDERR, WAITS } from './module.ts';

/**
 * Time for which Node.js polls for the end of an execution before it sleeps, in milliseconds. Waking up takes as long
 * as a short script. Timers and other tasks still run while Node.js polls.
 */
const LOOKING_MS = 0.5;
/** Execution numbers wrap around at this value. */
const NUMBERS = 2 ** 32;

/** An execution's result, or the calls that it waits for. */
export type PortResult = NativeExecution | RequestedCall[];

interface Pending {
  resolve(result: PortResult): void;
  reject(failure: NativeFailure): void;
  output: ((isStderr: boolean, bytes: Uint8Array) => void) | undefined;
}

/** Receives the results of all executions that the current JavaScript thread starts. */
export class Port {
  readonly #native: NativePort;
  readonly #pending = new Map<number, Pending>();
  #count = 0;
  #isLooking = false;
  #until = 0;
  /** Keeps Node.js alive while an execution runs. */
  readonly #hold: NodeJS.Timeout = setInterval(() => undefined, 2 ** 31 - 1).unref();

  constructor(module: NativeModule) {
    this.#native = new module.NativePort((execution, event, payload) => this.#receive(execution, event, payload));
  }

  /** Starts an execution or a step, and waits for its result. Rejects with a `NativeFailure`. */
  execute(begin: (port: NativePort, execution: number) => void, output: Pending['output']): Promise<PortResult> {
    return new Promise((resolve, reject) => {
      const execution = this.#count;
      begin(this.#native, execution);
      this.#count = (execution + 1) % NUMBERS;
      if (this.#pending.size === 0) this.#hold.ref();
      this.#pending.set(execution, { resolve, reject, output });
      this.#look();
    });
  }

  #receive(execution: number, event: number, payload: any): void {
    const pending = this.#pending.get(execution);
    if (!pending) return;
    if (event !== DONE && event !== FAILED && event !== WAITS) {
      pending.output?.(event === STDERR, payload);
      return;
    }
    this.#pending.delete(execution);
    if (this.#pending.size === 0) this.#hold.unref();
    if (event === DONE) pending.resolve(payload);
    else if (event === WAITS) pending.resolve(JSON.parse(new TextDecoder().decode(payload)));
    else pending.reject(payload);
  }

  /** Polls with `setImmediate`, because Node.js does not sleep while an immediate is pending. */
  #look(): void {
    this.#until = performance.now() + LOOKING_MS;
    if (this.#isLooking) return;
    this.#isLooking = true;
    const turn = (): void => {
      if (this.#pending.size > 0 && performance.now() < this.#until) setImmediate(turn);
      else this.#isLooking = false;
    };
    setImmediate(turn);
  }
}
