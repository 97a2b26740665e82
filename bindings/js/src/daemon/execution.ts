// Executions in the daemon: output, tool calls and cancellation.
import type { ExecutionHooks, CallAnswer, Host, RequestedCall, ToolDescription } from '../backend.ts';
import { errorOf } from '../errors.ts';
import { stringifyParsedJson } from '../json.ts';
import { WITHOUT_RESULT } from '../record.ts';
import type { Answer } from '../tools.ts';
import { type Client, Problem, type Route } from './client.ts';

/**
 * Milliseconds from a tool call to the first check that the script still waits for its tools. A limit can end the
 * script while its tools run.
 */
const FIRST_POLL_MS = 50;
/** Milliseconds between later checks. */
const POLL_MS = 250;
/** Milliseconds between attempts to resume a script while the daemon is busy. */
const RETRY_MS = 1_000;

/** The client, tools and current executions of a sandbox in the daemon. */
export interface DaemonContext {
  client: Client;
  /** The paths of this client's executions in the daemon. */
  executions: Set<string>;
  tools: readonly ToolDescription[];
  host: Host;
}

/** A tool call that this process answers. */
interface Call {
  id: number;
  name: string;
  arguments: unknown;
  /** True if the daemon's policy requires approval for the call. */
  approve?: boolean;
}

/** An answer to a tool call: its outcome, and its result as JSON text or the message of its failure. */
interface Answered {
  id: number;
  kind: Answer[0];
  text: string;
}

/** Converts an answer to JSON text. */
function jsonOf({ id, kind, text }: Answered): string {
  if (kind === 'returned') return `{"id":${id},"value":${text}}`;
  return JSON.stringify({ id, error: kind === 'denied' ? { type: 'ToolDenied', message: text } : text });
}

/**
 * Runs an execution in the daemon, answers its tool calls, and returns its record. Rejects with a `Problem` if the
 * daemon reports an error.
 */
export function execute(context: DaemonContext, path: string, body: string, hooks: ExecutionHooks): Promise<any> {
  const execution = new DaemonExecution(context, false);
  return execution.attend(hooks, () => execution.run(path, body));
}

/** Cancels executions that were dropped while they waited for the caller. */
const dropped = new FinalizationRegistry<() => void>((cancel) => cancel());

function cancelIfDropped(execution: DaemonExecution, { client, executions }: DaemonContext, path: string): void {
  // The callback must not refer to the execution, which would then never be collected.
  const cancel = (): void => {
    executions.delete(path);
    void client.cancel(path);
  };
  dropped.register(execution, cancel, execution);
}

/** An execution in the daemon. */
export class DaemonExecution {
  readonly #context: DaemonContext;
  /** True if calls to tools without a function wait for the caller. Otherwise, they fail. */
  readonly #isStarted: boolean;
  #output: ExecutionHooks['output'];
  /** The output so far on each stream, if the execution can wait for the caller. */
  readonly #written: [stdout: string[], stderr: string[]] = [[], []];
  /** The calls that wait for the caller. */
  open: RequestedCall[] = [];
  /** The controllers that abort the calls that this process answers, by call ID; `undefined` for answered calls. */
  readonly #calls = new Map<number, AbortController | undefined>();
  readonly #answers: Answered[] = [];
  /** The execution's path; `undefined` until the daemon has accepted the execution. */
  #path: string | undefined;
  #isCancelled = false;
  #hasEnded = false;
  /** Resolves to the record of an execution that was cancelled while it waited for its tools. */
  #cancelled: Promise<any> | undefined;
  /** True if each request contains at most one answer, because the daemon rejected a request with several. */
  #sendsOne = false;
  /** The error with which the daemon last refused to resume the script because it was busy. */
  #refused: Problem | undefined;
  /** Ends the wait for answers. */
  #wake: () => void = () => undefined;

  constructor(context: DaemonContext, isStarted: boolean) {
    this.#context = context;
    this.#isStarted = isStarted;
  }

  /**
   * Runs a step with its listeners, and returns the record of the execution. Returns `undefined` when the script waits
   * only for calls in `open`. Rejects with a `Problem` if the daemon reports an error; the execution has then ended.
   */
  async attend({ cancel, output }: ExecutionHooks, step: () => Promise<any>): Promise<any> {
    this.#output = output;
    dropped.unregister(this);
    cancel.onCancel(() => this.cancel());
    let record: any = WITHOUT_RESULT;
    try {
      record = await step();
    } catch (error) {
      if (!(error instanceof Problem) || error.type !== 'cancelled') throw error;
    } finally {
      cancel.onCancel(undefined);
      this.#output = undefined;
      if (record !== undefined) this.release();
    }
    if (record === undefined && this.#path !== undefined) cancelIfDropped(this, this.#context, this.#path);
    return record;
  }

  async run(path: string, body: string): Promise<any> {
    return this.#isCancelled ? WITHOUT_RESULT : this.#follow(await this.#step(path, body));
  }

  /** Passes the caller's answers to the script. */
  async answer(answers: readonly CallAnswer[]): Promise<any> {
    this.#answers.push(...answers.map(({ call, kind, text }) => ({ id: call, kind, text })));
    return this.#follow((await this.#cancelledRecord()) ?? (await this.#resume()));
  }

  /** Ends the execution, and returns it as bytes. */
  async suspend(): Promise<Uint8Array> {
    const bytes = await this.#context.client.bytes(['POST', `${this.#path}/suspend`]);
    dropped.unregister(this);
    this.#hasEnded = true;
    this.release();
    return new Uint8Array(bytes);
  }

  /** Returns the output so far, as text. */
  written(isStderr: boolean): string {
    return this.#written[Number(isStderr)]?.join('') ?? '';
  }

  /**
   * Answers calls until the script has ended, and returns its record. Returns `undefined` when the script waits only
   * for calls in `open`.
   */
  async #follow(last: any): Promise<any> {
    for (let pollMs = FIRST_POLL_MS; last.type === 'needs-tools'; ) {
      this.#update(last.calls);
      if (this.open.length > 0 && this.#calls.size === 0 && this.#answers.length === 0) return undefined;
      await this.#answered(pollMs);
      pollMs = this.#answers.length > 0 ? FIRST_POLL_MS : POLL_MS;
      last = (await this.#cancelledRecord()) ?? (await this.#resume());
    }
    this.#hasEnded = true;
    return last.result;
  }

  cancel(): void {
    this.#isCancelled = true;
    if (this.#path === undefined) return;
    this.#cancelled ??= this.#context.client.cancel(this.#path);
    this.#wake();
  }

  /** Aborts the calls that this process is still answering, and ends an execution that failed in this process. */
  release(): void {
    for (const call of this.#calls.values()) call?.abort();
    if (this.#path === undefined) return;
    this.#context.executions.delete(this.#path);
    if (!this.#hasEnded) void this.#context.client.cancel(this.#path);
  }

  /** Sends a request that runs the script, and returns the last chunk of its response. */
  async #step(path: string, body: string): Promise<any> {
    const route: Route = ['POST', path];
    let last: any;
    await this.#context.client.stream(route, body, (chunk) => {
      if (chunk.type === 'stdout' || chunk.type === 'stderr') this.#wrote(chunk.type === 'stderr', chunk.text);
      else if (chunk.type === 'started') this.#started(chunk.execution);
      else last = chunk;
    });
    if (last === undefined) throw errorOf('UnavailableError', "the daemon's response ended without a result; create a new sandbox");
    if (last.type === 'error') throw new Problem(last.problem);
    return last;
  }

  #wrote(isStderr: boolean, text: string): void {
    if (this.#isStarted) this.#written[Number(isStderr)]?.push(text);
    this.#output?.(isStderr, new TextEncoder().encode(text));
  }

  #started(execution: string): void {
    this.#path = `/v1/executions/${execution}`;
    this.#context.executions.add(this.#path);
    if (this.#isCancelled) this.cancel();
  }

  /** Starts answering new calls, and aborts the calls that the script has abandoned. */
  #update(all: Call[]): void {
    const calls = all.filter((call) => !this.#waits(call));
    this.open = all.filter((call) => this.#waits(call)).map((call) => ({ ...call, arguments: stringifyParsedJson(call.arguments) }));
    const listed = new Set(calls.map(({ id }) => id));
    for (const [id, call] of this.#calls) {
      if (listed.has(id)) continue;
      this.#calls.delete(id);
      call?.abort();
    }
    for (const call of calls) if (!this.#calls.has(call.id)) void this.#answer(call);
  }

  #waits({ name }: Call): boolean {
    return this.#isStarted && this.#context.tools.some((tool) => tool.waits && tool.name === name);
  }

  async #answer({ id, name, arguments: parameters, approve }: Call): Promise<void> {
    const { tools, host } = this.#context;
    const call = new AbortController();
    this.#calls.set(id, call);
    const index = tools.findIndex((tool) => tool.name === name);
    const refusal: Answer | undefined = approve
      ? ['denied', `calls to \`${name}\` need an approval; define the tool without an execute function, and use \`start\``]
      : tools[index]?.waits
        ? ['failed', `calls to \`${name}\` wait for an answer, but this run was not begun with \`start\`; use \`start\``]
        : undefined;
    const [kind, text] = refusal ?? (await host.answer(index, stringifyParsedJson(parameters), call.signal));
    if (call.signal.aborted) return;
    this.#calls.set(id, undefined);
    this.#answers.push({ id, kind, text });
    this.#wake();
  }

  /** Waits for an answer, a cancellation or the end of `pollMs`. */
  async #answered(pollMs: number): Promise<void> {
    if (this.#answers.length > 0 || (await this.#cancelled)) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, pollMs);
      // An answer may have arrived during the `await` above.
      if (this.#answers.length > 0) resolve();
    });
    clearTimeout(timer);
  }

  /** Returns the last chunk of an execution that was cancelled while it waited for its tools. */
  async #cancelledRecord(): Promise<any> {
    const result = await this.#cancelled;
    return result && { type: 'result', result };
  }

  /** Resumes the script with the current answers, and returns the last chunk of the response. */
  async #resume(): Promise<any> {
    const answers = this.#answers.splice(0, this.#sendsOne ? 1 : Infinity);
    try {
      return await this.#step(`${this.#path}/continue`, `{"answers":[${answers.map(jsonOf).join()}]}`);
    } catch (error) {
      // A cancellation during the request has ended the execution.
      const record = await this.#cancelledRecord();
      if (record) return record;
      if (!(error instanceof Problem)) throw error;
      if (this.#isCancelled && error.type === 'not-found') {
        // The execution had ended before the cancellation, and the cancellation discarded its result.
        return { type: 'result', result: WITHOUT_RESULT };
      }
      if (error.status === 503) {
        // Either the script still waits for its answers, or the daemon had no memory for the result.
        this.#refused = error;
        this.#answers.unshift(...answers);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      } else if (['invalid-argument', 'too-large'].includes(error.type) && answers.some(({ kind }) => kind === 'returned')) {
        // The daemon rejected a result, such as one that is nested too deeply, and discarded all answers. The script
        // receives the reason in place of that result.
        this.#sendsOne = true;
        const rejected = ({ id }: Answered): Answered => ({ id, kind: 'failed', text: error.message });
        this.#answers.unshift(...(answers.length === 1 ? answers.map(rejected) : answers));
      } else {
        throw (error.type === 'not-found' && this.#refused) || error;
      }
      return this.#resume();
    }
  }
}
