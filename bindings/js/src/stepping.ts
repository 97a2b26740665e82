// Starts and resumes runs that can wait for answers to tool calls, in a sandbox or a session.
import { attended } from './attended.ts';
import type { Attendant, BackendKind, Stepped, Stepping } from './backend.ts';
import type { Cancel } from './cancel.ts';
import * as check from './check.ts';
import { UnsupportedError } from './errors.ts';
import { type ExecuteOptions, type ListenOptions, type ResumeOptions, inputOf, resumeTimeout } from './options.ts';
import { Run } from './run.ts';
import { WaitingRun, answersOf } from './waiting.ts';

/** Registers the execution for `Sandbox.cancel` while `run` is pending. */
export type Cancellable = <Result>(run: (cancel: Cancel) => Promise<Result>) => Promise<Result>;

/** Runs operations in the order of the calls, without blocking a thread while they wait. */
export type Turn = <Result>(ask: () => Promise<Result>) => Promise<Result>;

const atOnce: Turn = (ask) => ask();

/** The part of a sandbox or a session that starts and resumes runs. */
export class Starter<Place extends object> {
  readonly #place: Place & Stepping;
  readonly #cancellable: Cancellable;
  readonly #turn: Turn;

  /** Throws `UnsupportedError` if the backend does not support runs that wait for answers. */
  constructor(method: string, kind: BackendKind | undefined, place: Place, cancellable: Cancellable, turn: Turn = atOnce) {
    if (!isStepping(place)) {
      const named = kind === undefined ? 'this backend' : `backend: "${kind}"`;
      throw new UnsupportedError(`${method}: ${named} does not support runs that wait for answers; use backend: "native" or "daemon" outside browsers`);
    }
    this.#place = place;
    this.#cancellable = cancellable;
    this.#turn = turn;
  }

  get place(): Place & Stepping {
    return this.#place;
  }

  start(source: string, options: ExecuteOptions): Promise<Run | WaitingRun> {
    const input = inputOf(source, options);
    return this.#step(options, (to) => this.#place.start(input, to), this.#turn);
  }

  async resume(state: Uint8Array, options: ResumeOptions): Promise<Run | WaitingRun> {
    const bytes = check.bytes('state', state);
    const timeoutMs = resumeTimeout(options);
    const answers = answersOf(options);
    const run = await this.#step(options, (to) => this.#place.startSuspended(bytes, timeoutMs, to), this.#turn);
    // A cancellation or a timeout may have ended the run.
    if (run instanceof Run || answers.length === 0) return run;
    try {
      return await run.answer({ answers: options.answers, denied: options.denied, failed: options.failed });
    } catch (error) {
      run.cancel();
      throw error;
    }
  }

  /** Runs a step. Only the first one waits for its turn, because the later ones let the session continue. */
  #step(options: ListenOptions, step: (to: Attendant) => Promise<Stepped>, turn: Turn): Promise<Run | WaitingRun> {
    return this.#cancellable((cancel) =>
      turn(() =>
        attended(cancel, options, async (to) => {
          const stepped = await step(to);
          return 'calls' in stepped ? new WaitingRun(stepped, (next) => this.#step(options, next, atOnce)) : new Run(stepped);
        }),
      ),
    );
  }
}

function isStepping<Place extends object>(place: Place): place is Place & Stepping {
  return 'startSuspended' in place;
}
