// Runs that wait for answers to tool calls.
import type { ExecutionHooks, BackendWaiting, CallAnswer, RequestedCall, BackendStep } from './backend.ts';
import * as check from './check.ts';
import { PolicyError, SuspensionError } from './errors.ts';
import { parseJson } from './json.ts';
import type { Run } from './run.ts';
import type { Session } from './session.ts';
import type { Answer } from './tools.ts';

/** A tool call that waits for an answer. */
export interface WaitingCall {
  /** The call's number in the run, counted from 0. Calls of tools with `execute` are counted too. */
  id: number;
  /** The name of the tool. */
  name: string;
  /** The arguments, which match the tool's schema. Integers outside ±(2^53 − 1) are bigints. */
  arguments: any;
}

/** Answers to waiting calls, by the calls' IDs. Calls without an answer continue to wait. */
export interface CallAnswers {
  /** The results of calls. JSON must be able to represent them, except that bigints become integers. */
  answers?: Readonly<Record<number, unknown>> | undefined;
  /** The reasons for refusing calls. In the script, a refused call raises `ToolDenied` with the reason. */
  denied?: Readonly<Record<number, string>> | undefined;
  /** The messages of failed calls. In the script, a failed call raises `ToolError` with the message. */
  failed?: Readonly<Record<number, string>> | undefined;
}

/** Converts calls to their public form. */
export function callsOf(calls: readonly RequestedCall[]): WaitingCall[] {
  return calls.map(({ id, name, arguments: given }) => ({ id, name, arguments: parseJson(given) }));
}

/** Checks the types of answers, and converts them to JSON text. */
export function answersOf({ answers, denied, failed }: CallAnswers): [call: string, answer: Answer][] {
  const all = [
    ...check.entries('answers', answers, (name, value): Answer => ['returned', check.json(name, value)]),
    ...check.entries('denied', denied, (name, reason): Answer => ['denied', check.of(name, 'string', reason)]),
    ...check.entries('failed', failed, (name, message): Answer => ['failed', check.of(name, 'string', message)]),
  ];
  const twice = all.find(([call], index) => all.findIndex(([other]) => other === call) < index);
  if (twice) throw new TypeError(`answers, denied and failed contain call ${twice[0]} more than once; answer each call once`);
  return all;
}

/** The sandbox or session of a run, with the options of the call that started the run. */
export interface RunPlace {
  readonly session: Session | undefined;
  /** Runs the next step of the run, with the listeners of the first step. */
  step(step: (to: ExecutionHooks) => Promise<BackendStep>): Promise<Run | WaitingRun>;
  /** Resumes a suspended run `count` times. */
  fork(state: Uint8Array, count: number): Promise<WaitingRun[]>;
}

/**
 * A run that has called tools without `execute` and waits for the answers. Answer it, or suspend it and resume it
 * later. Until then, its interpreter stays in memory, and `limits.timeoutMs` and `limits.toolTimeoutMs` apply. Each
 * instance can be continued, suspended or forked once.
 */
export class WaitingRun {
  readonly #waiting: BackendWaiting;
  readonly #place: RunPlace;
  #isUsed = false;
  /** The calls without an answer, in the order in which the script made them. */
  readonly calls: readonly WaitingCall[];

  /** Use `Sandbox.start` or `Sandbox.resumeSuspended` to obtain instances. */
  constructor(waiting: BackendWaiting, place: RunPlace) {
    this.#waiting = waiting;
    this.#place = place;
    this.calls = callsOf(waiting.calls);
  }

  /** The session in which the script runs; `undefined` outside sessions. */
  get session(): Session | undefined {
    return this.#place.session;
  }

  /** Standard output so far, as text. */
  get stdout(): string {
    return this.#waiting.stdout;
  }

  /** Standard error so far, as text. */
  get stderr(): string {
    return this.#waiting.stderr;
  }

  /**
   * Continues the script with answers. Returns when the script has ended or waits again. Ignores answers to calls that
   * exceeded their timeout. The listeners and the signal of the first call still apply.
   */
  async answer(options: CallAnswers = {}): Promise<Run | WaitingRun> {
    check.known('options', options, ['answers', 'denied', 'failed']);
    const answers = answersOf(options).map((answer) => this.#callAnswer(answer));
    this.#use();
    try {
      return await this.#place.step((to) => this.#waiting.answer(answers, to));
    } catch (error) {
      // The step has failed, for example because the signal was already aborted.
      this.cancel();
      throw error;
    }
  }

  #callAnswer([call, [kind, text]]: [string, Answer]): CallAnswer {
    const found = this.calls.find(({ id }) => String(id) === call);
    if (found) return { call: found.id, kind, text };
    const ids = this.calls.map(({ id }) => id).join(', ');
    throw new PolicyError(`the script is not waiting for call ${call}; answer one of these calls: ${ids}`);
  }

  /**
   * Ends the run and returns it as bytes, which `Sandbox.resumeSuspended` resumes in this or another process. The bytes
   * contain the script, its input, and everything that it has received, such as the results of tools. They are not
   * encrypted. Fails if a tool's `execute` is running, or if the script has received more than 1 MiB. In that case, the
   * run keeps waiting.
   */
  async suspend(): Promise<Uint8Array> {
    this.#use();
    try {
      return await this.#waiting.suspend();
    } catch (error) {
      this.#isUsed = false;
      throw error;
    }
  }

  /**
   * Ends the run and returns `count` copies that wait for the same calls. Answer each one differently to compare the
   * results.
   *
   * Each fork repeats the script without calling tools, until it waits. Each fork has its own interpreter and files. In
   * a session, it has its own `session`, in its state before the script. Forks keep the listeners, the signal and the
   * `timeoutMs` of the first call; the time of each fork starts again.
   *
   * Fails like `suspend`. If a fork cannot be created, the other forks are cancelled, and the run is lost. To keep the
   * run in this case, use `suspend`, and resume its bytes several times.
   */
  async fork(count: number): Promise<WaitingRun[]> {
    const copies = Number(check.whole('count', count));
    return this.#place.fork(await this.suspend(), copies);
  }

  #use(): void {
    if (this.#isUsed) throw new SuspensionError('the run was already continued or suspended; use the new run, or resume the bytes');
    this.#isUsed = true;
  }

  /**
   * Cancels the run and releases its interpreter. `answer` then returns the cancelled run. It returns a `WaitingRun`
   * only if the script handles the cancellation and calls a tool again. Does nothing if the run has ended.
   */
  cancel(): void {
    this.#waiting.cancel();
  }
}
