// Starts and resumes runs that can wait for answers to tool calls, in a sandbox or a session.
import { runWithHooks } from './hooks.ts';
import type { ExecutionHooks, BackendKind, BackendSession, BackendWaiting, BackendStep, Startable } from './backend.ts';
import type { Cancel } from './cancel.ts';
import * as check from './check.ts';
import { SuspensionError, UnsupportedError } from './errors.ts';
import { type ExecuteOptions, type ListenOptions, type ResumeOptions, inputOf, resumeTimeout } from './options.ts';
import { Run } from './run.ts';
import type { Session } from './session.ts';
import { WaitingRun, answersOf } from './waiting.ts';

/** Registers the execution for `Sandbox.cancel` while `run` is pending. */
export type Cancellable = <Result>(run: (cancel: Cancel) => Promise<Result>) => Promise<Result>;

/** Runs operations in the order of the calls, without blocking a thread while they wait. */
export type Turn = <Result>(ask: () => Promise<Result>) => Promise<Result>;

const atOnce: Turn = (ask) => ask();

/** The properties and methods of a session that its runs need. */
export interface SessionRuns {
  readonly session: Session;
  readonly turn: Turn;
  /** Restores a new session in its state before a suspended run, and returns its starter. */
  fork(state: Uint8Array): Promise<Starter<BackendSession>>;
}

/** The options of a run that its forks keep. */
interface RunOptions {
  listen: ListenOptions;
  timeoutMs: number | undefined;
}

/** Starts and resumes runs in a sandbox or a session. */
export class Starter<Place extends object> {
  readonly #place: Place & Startable;
  readonly #cancellable: Cancellable;
  readonly #session: SessionRuns | undefined;

  /** Throws `UnsupportedError` if the backend does not support runs that wait for answers. */
  constructor(method: string, kind: BackendKind | undefined, place: Place, cancellable: Cancellable, session?: SessionRuns) {
    if (!isStartable(place)) {
      const named = kind === undefined ? 'this backend' : `backend: "${kind}"`;
      const { cannotWait } = place as { cannotWait?: string };
      const why = cannotWait ?? `${named} does not support runs that wait for answers; use backend: "native" or "daemon" outside browsers`;
      throw new UnsupportedError(`${method}: ${why}`);
    }
    this.#place = place;
    this.#cancellable = cancellable;
    this.#session = session;
  }

  get place(): Place & Startable {
    return this.#place;
  }

  start(source: string, options: ExecuteOptions): Promise<Run | WaitingRun> {
    const input = inputOf(source, options);
    return this.#begin({ listen: options, timeoutMs: input.timeoutMs }, (to) => this.#place.start(input, to));
  }

  async resume(state: Uint8Array, options: ResumeOptions): Promise<Run | WaitingRun> {
    const bytes = check.bytes('state', state);
    const timeoutMs = resumeTimeout(options);
    const answers = answersOf(options);
    const run = await this.#resume(bytes, { listen: options, timeoutMs });
    // A cancellation or a timeout may have ended the run before it waited.
    if (run instanceof Run || answers.length === 0) return run;
    try {
      return await run.answer({ answers: options.answers, denied: options.denied, failed: options.failed });
    } catch (error) {
      run.cancel();
      throw error;
    }
  }

  /** Resumes a suspended run. Returns when it waits for the same calls. */
  #resume(state: Uint8Array, options: RunOptions): Promise<Run | WaitingRun> {
    return this.#begin(options, (to) => this.#place.startSuspended(state, options.timeoutMs, to));
  }

  #begin(options: RunOptions, step: (to: ExecutionHooks) => Promise<BackendStep>): Promise<Run | WaitingRun> {
    return this.#step(options, step, this.#session?.turn ?? atOnce);
  }

  /**
   * Runs a step. Only the first step waits for its turn. Later steps must run at once, because the session's other
   * operations wait for the end of the run.
   */
  #step(options: RunOptions, step: (to: ExecutionHooks) => Promise<BackendStep>, turn: Turn): Promise<Run | WaitingRun> {
    return this.#cancellable((cancel) =>
      turn(() =>
        runWithHooks(cancel, options.listen, async (to) => {
          const stepped = await step(to);
          return 'calls' in stepped ? this.#waiting(stepped, options) : new Run(stepped);
        }),
      ),
    );
  }

  #waiting(waiting: BackendWaiting, options: RunOptions): WaitingRun {
    return new WaitingRun(waiting, {
      session: this.#session?.session,
      step: (next) => this.#step(options, next, atOnce),
      fork: (state, count) => this.#forks(state, count, options),
    });
  }

  /** Resumes a suspended run `count` times. Cancels all forks if one fails. */
  async #forks(state: Uint8Array, count: number, options: RunOptions): Promise<WaitingRun[]> {
    const forks = await Promise.allSettled(Array.from({ length: count }, () => this.#fork(state, options)));
    const runs = forks.flatMap((fork) => (fork.status === 'fulfilled' ? [fork.value] : []));
    const failed = forks.find((fork) => fork.status === 'rejected');
    if (!failed) return runs;
    for (const run of runs) run.cancel();
    throw failed.reason;
  }

  async #fork(state: Uint8Array, options: RunOptions): Promise<WaitingRun> {
    const starter: Starter<object> = this.#session ? await this.#session.fork(state) : this;
    const run = await starter.#resume(state, options);
    if (run instanceof WaitingRun) return run;
    throw new SuspensionError(`a fork ended before it waited for its calls: ${run.outcome}`);
  }
}

function isStartable<Place extends object>(place: Place): place is Place & Startable {
  return 'startSuspended' in place;
}
