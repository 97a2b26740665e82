/// <reference types="node" />
// Calls to host functions by scripts of the `run` package, and interruptions of these calls.
import { AsyncLocalStorage } from 'node:async_hooks';
import { decode, encode } from './binary.ts';
import { stringifyJson } from './json.ts';
import type { ContinuationState, Recorded } from './run-continuation.ts';
import { RunError, RunProtocolError } from './run-errors.ts';

/** Functions that scripts call as `GROUP.NAME(…)`. */
export type HostFunctions = Record<string, Record<string, (...args: any[]) => unknown>>;

/** The context of a call to a host function. */
export interface HostFunctionContext {
  abortSignal: AbortSignal;
  invocationId: string;
  /** The ID of the script, which is the same in all its continuations. */
  logicalRunId: string;
  requestId: string;
  /** The number of the call, counted from 1. */
  requestIndex: number;
  /** The function's name, such as `tools.search`. */
  hostFunctionName: string;
  /** Interrupts the script by throwing an error. */
  interrupt(payload: unknown): never;
  /** The decision on the payload, if an earlier execution was interrupted by this call. */
  resume?: { interruptionId: string; payload: unknown; resolution: unknown };
}

/** A call that waits for a decision. */
export interface RunInterruption {
  id: string;
  hostFunctionName: string;
  arguments: unknown[];
  payload: unknown;
}

/** The error that `interrupt` throws. Programs recognize it by its name. */
class Interruption extends Error {
  readonly payload: string;

  constructor(payload: unknown) {
    super('Host function interruption requested.');
    this.name = 'HostFunctionInterruptSignal';
    this.payload = textOf(payload);
  }
}

const contexts = new AsyncLocalStorage<HostFunctionContext>();

/** Returns the context of the current call. Throws outside of host functions. */
export function getHostFunctionContext(): HostFunctionContext {
  const context = contexts.getStore();
  if (!context) throw new Error('getHostFunctionContext() can only be called while executing a host function.');
  return context;
}

/** The interval without calls after which an interrupted script is stopped, in milliseconds. */
const SETTLE_MS = 10;

/** Converts a value to JSON text. */
function textOf(value: unknown): string {
  return JSON.stringify(encode(value)) ?? 'null';
}

/** Reads a value from JSON text. */
function valueOf(text: string): unknown {
  return decode(JSON.parse(text));
}

/** Reads the recorded answer to a call. */
function resultOf(text: string): Answer {
  return JSON.parse(text) as Answer;
}

/** A call as the script sends it. `index` is the number of the call, counted from 1. */
export interface Call {
  index: number;
  name: string;
  args: unknown[];
}

/** The answer to a call, and the time of the answer in milliseconds since 1970. */
export interface Answer {
  value?: unknown;
  now: number;
}

/** The parts of a run's input that an execution needs. */
interface ExecutionOptions {
  hostFunctions?: HostFunctions;
  abortSignal?: AbortSignal;
  resolutions?: { interruptionId: string; value: unknown }[];
  limits: { maxHostFunctionArgumentsBytes: number; maxHostFunctionOutputBytes: number };
}

/** An execution whose calls are answered from the record or by the host's functions. */
export class Execution {
  readonly #options: ExecutionOptions;
  readonly #state: ContinuationState;
  readonly #invocationId = crypto.randomUUID();
  readonly #functions: ReadonlyMap<string, (...args: any[]) => unknown>;
  readonly #seen = new Set<number>();
  readonly #stop = new AbortController();
  /** Aborted if the caller aborts, or if the script can only wait for decisions. */
  readonly signal: AbortSignal;
  /** The errors that the script received. */
  readonly errors: RunError[] = [];
  /** The number of host functions that are running. */
  #running = 0;
  /** Stops the script when it fires. */
  #timer: ReturnType<typeof setTimeout> | undefined;
  #hasEnded = false;

  constructor(options: ExecutionOptions, state: ContinuationState) {
    this.#options = options;
    this.#state = state;
    const groups = Object.entries(options.hostFunctions ?? {});
    this.#functions = new Map(groups.flatMap(([group, members]) => Object.entries(members).map(([name, call]) => [`${group}.${name}`, call] as const)));
    this.signal = AbortSignal.any([this.#stop.signal, ...(options.abortSignal ? [options.abortSignal] : [])]);
  }

  /** The calls that wait for decisions. */
  get interruptions(): RunInterruption[] {
    return this.#state.calls.flatMap((call) =>
      call?.status === 'interrupted'
        ? [{ id: call.id, hostFunctionName: call.name, arguments: valueOf(call.args) as unknown[], payload: valueOf(call.payload) }]
        : [],
    );
  }

  /** Answers a call. An answer without `value` means `undefined`. */
  async answer({ index, name, args: given }: Call, signal: AbortSignal): Promise<Answer> {
    // Calls of a stopped script are not recorded in its continuation, and remain unanswered.
    if (this.#stop.signal.aborted) return new Promise(() => undefined);
    // The number comes from the script. A script that repeated a number could use one decision twice.
    if (this.#seen.has(index)) throw new RunProtocolError(`The script used call number ${index} twice.`);
    this.#seen.add(index);
    // Large integers are rounded to JavaScript numbers.
    const text = stringifyJson(given);
    const { maxHostFunctionArgumentsBytes, maxHostFunctionOutputBytes } = this.#options.limits;
    if (Buffer.byteLength(text) > maxHostFunctionArgumentsBytes) {
      throw this.#failed(new RunError(`The host function arguments exceed the ${maxHostFunctionArgumentsBytes} byte size limit.`, 'RUN_USER_SOURCE_ERROR'));
    }
    const args = JSON.parse(text) as unknown[];
    const recorded = this.#state.calls[index - 1];
    if (recorded && (recorded.name !== name || recorded.args !== text)) throw new RunProtocolError('The script behaves differently than before.');
    if (recorded?.status === 'fulfilled') return resultOf(recorded.value);
    if (recorded?.status === 'rejected') throw this.#failed(new RunError(recorded.message, recorded.code));
    const resolution = recorded && this.#options.resolutions?.find(({ interruptionId }) => interruptionId === recorded.id);
    if (recorded && !resolution) return this.#wait();
    const call = this.#functions.get(name);
    if (!call) throw new TypeError(`there is no host function ${name}`);
    const context: HostFunctionContext = {
      abortSignal: signal,
      invocationId: this.#invocationId,
      logicalRunId: this.#state.logicalRunId,
      requestId: `${this.#invocationId}:${index}`,
      requestIndex: index,
      hostFunctionName: name,
      interrupt: (payload) => {
        throw new Interruption(payload);
      },
      ...(recorded && resolution ? { resume: { interruptionId: recorded.id, payload: valueOf(recorded.payload), resolution: resolution.value } } : {}),
    };
    this.#running += 1;
    const record = (result: Recorded): void => void (this.#state.calls[index - 1] = result);
    try {
      const result = await contexts.run(context, async () => call(...(decode(args) as unknown[])));
      if (Buffer.byteLength(textOf(result)) > maxHostFunctionOutputBytes) {
        throw new RunError(`The host function result exceeds the ${maxHostFunctionOutputBytes} byte size limit.`, 'RUN_SERIALIZATION_ERROR');
      }
      const value = textOf({ value: result, now: Date.now() });
      record({ name, args: text, status: 'fulfilled', value });
      return resultOf(value);
    } catch (error) {
      if (!(error instanceof Interruption)) {
        const failure = RunError.isInstance(error) ? error : new RunError(error instanceof Error ? error.message : String(error), 'RUN_HOST_FUNCTION_ERROR');
        record({ name, args: text, status: 'rejected', message: failure.message, code: failure.code });
        throw this.#failed(failure);
      }
      record({ name, args: text, status: 'interrupted', id: `interrupt-${index}`, payload: error.payload });
    } finally {
      this.#running -= 1;
    }
    return this.#wait();
  }

  /** Releases the timer. Must be called when the script has ended, because a host function can run forever. */
  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
  }

  #failed(error: RunError): RunError {
    this.errors.push(error);
    return error;
  }

  /**
   * Returns a promise that never resolves. Stops the script when no other call has arrived for a while and none is
   * running: the calls of a `Promise.all` arrive one after the other.
   */
  #wait(): Promise<never> {
    const stop = (): void => void (this.#running === 0 ? this.#stop.abort() : (this.#timer = setTimeout(stop, SETTLE_MS)));
    clearTimeout(this.#timer);
    if (!this.#hasEnded) this.#timer = setTimeout(stop, SETTLE_MS);
    return new Promise(() => undefined);
  }
}
