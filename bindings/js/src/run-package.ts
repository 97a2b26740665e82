/// <reference types="node" />
/**
 * The interface of the `run` package. Its host functions can interrupt a script until a person has made a decision. The
 * module imports nothing from that package.
 */
import { createHash } from 'node:crypto';
import { Opaque, type Run, type SandboxOptions, createSandbox } from 'glovebox-sandbox';
import { SANDBOX_CODEC, decode } from './binary.ts';
import { stringifyJson } from './json.ts';
import { FUEL_PER_MS, IDENTIFIER } from './report.ts';
import { type Call, Execution, type HostFunctions, type RunInterruption } from './run-calls.ts';
import { type ContinuationCodec, createSignedContinuationCodec, newState } from './run-continuation.ts';
import { RunAbortedError, RunBridgeLimitError, RunError, RunProtocolError, RunSourceTooLargeError, RunTimeoutError } from './run-errors.ts';
import { type RunLimits, limitsOf, positive } from './run-limits.ts';

export { type HostFunctionContext, type HostFunctions, type RunInterruption, getHostFunctionContext } from './run-calls.ts';
export { type ContinuationCodec, createSignedContinuationCodec } from './run-continuation.ts';
export * from './run-errors.ts';
export type { RunLimits } from './run-limits.ts';

/** The result of a script, or the calls that wait for decisions. */
export type RunResult<Output = unknown, Token = unknown> =
  | { status: 'completed'; value: Output }
  | { status: 'interrupted'; interruptions: RunInterruption[]; continuation: Token };

/** A script and its environment. */
export interface RunInput<Token = unknown> {
  /** The body of an async function, in JavaScript or TypeScript. */
  source: string;
  hostFunctions?: HostFunctions;
  abortSignal?: AbortSignal;
  limits?: RunLimits;
  /** Continues an interrupted script, which starts again and receives the recorded results. */
  continuation?: Token;
  /** Decisions, each with the ID of its interruption. Calls without a decision continue to wait. */
  resolutions?: { interruptionId: string; value: unknown }[];
  /** A JSON value that must be the same when an interrupted script is continued. */
  continuationContext?: unknown;
}

/** The options of a runner. `sandbox` contains options for `createSandbox`. */
export interface RunnerOptions<Token = string> {
  limits?: RunLimits;
  continuationSecret?: string | Uint8Array;
  continuationCodec?: ContinuationCodec<Token>;
  continuationAudience?: string;
  sandbox?: Omit<SandboxOptions, 'language' | 'tools' | 'limits' | 'seed' | 'clockNs'>;
}

/** Minimum memory that the interpreter needs, in bytes. */
const MIN_MEMORY_BYTES = 32 << 20;

/** Returns `true` for the result of an interrupted script. */
export function isRunInterruptedResult(value: unknown): value is Extract<RunResult, { status: 'interrupted' }> {
  return typeof value === 'object' && value !== null && 'status' in value && value.status === 'interrupted';
}

/** Checks the argument and ignores it, because scripts run on the engine's threads. */
export function setMaxWorkers(maxWorkers?: number): void {
  if (maxWorkers !== undefined) positive('maxWorkers', maxWorkers);
}

/** Builds the script: the host functions by group, and the source. The functions number their calls to the host. */
function scriptOf(source: string, functions: HostFunctions): string {
  const groups = Object.entries(functions).map(([group, members]) => {
    const names = Object.keys(members);
    const isOdd = (name: string): boolean => !IDENTIFIER.test(name) || name.startsWith('__run') || name === 'then';
    if (isOdd(group)) throw new TypeError(`Invalid host function namespace: ${group}`);
    const odd = names.find(isOdd);
    if (odd !== undefined) throw new TypeError(`Invalid host function name: ${group}.${odd}`);
    const calls = names.map((name) => `${name}: (...args) => __run.call(${JSON.stringify(`${group}.${name}`)}, args)`);
    return `var ${group} = Object.freeze({ __proto__: null, ${calls.join(', ')} });`;
  });
  return `var __run = ((host) => {
  ${SANDBOX_CODEC}
  // The clock of the sandbox stands still. It advances with the answers, so that a repeated script sees the same times.
  const Clock = Date;
  let [count, now] = [0, Clock.now()];
  globalThis.Date = new Proxy(Clock, {
    construct: (target, args, caller) => Reflect.construct(target, args.length === 0 ? [now] : args, caller),
    apply: () => new Clock(now).toString(),
    get: (target, name) => (name === 'now' ? () => now : target[name]),
  });
  const call = async (name, args) => {
    const answer = await host({ index: (count += 1), name, args: encode(args) });
    now = answer.now;
    return decode(answer.value);
  };
  return { encode, call };
})(tools.host_function);
${groups.join('\n')}
__run.encode(await (async () => {
${source}
})())`;
}

/** Converts the value of a script to the result of the run. */
function resultOf(value: unknown, maxBytes: number): unknown {
  if (value instanceof Opaque) throw new RunError(`The result is not JSON-serializable: ${value.repr}`, 'RUN_SERIALIZATION_ERROR');
  if (value === undefined) return undefined;
  const text = stringifyJson(value);
  if (Buffer.byteLength(text) > maxBytes) throw new RunError(`The result exceeds the ${maxBytes} byte size limit.`, 'RUN_SERIALIZATION_ERROR');
  // Large integers are rounded to JavaScript numbers.
  return decode(JSON.parse(text));
}

/** Converts a failed run to an error of the `run` package. */
function failure(run: Run, errors: RunError[], { timeoutMs, maxBridgeRequests }: { timeoutMs: number; maxBridgeRequests: number }): Error {
  const { kind, type, message = '', resource } = run.outcome;
  if (kind === 'exhausted' && resource === 'time') return new RunTimeoutError(timeoutMs);
  if (kind !== 'raised') return new RunError(run.outcome.toString());
  const known = errors.findLast((error) => error.message === message);
  if (known) return known;
  if (type === 'ToolLimit' && run.toolCalls.length >= maxBridgeRequests) return new RunBridgeLimitError(message);
  return Object.assign(new RunError(message, 'RUN_USER_SOURCE_ERROR'), { name: type || 'Error' });
}

/** Creates a runner. Its `run` method executes scripts with these options. */
export function createRunner<Token = string>(options: RunnerOptions<Token> = {}): { run<Output>(input: RunInput<Token>): Promise<RunResult<Output, Token>> } {
  const secret = options.continuationSecret ?? process.env['RUN_CONTINUATION_SECRET'];
  const codec = options.continuationCodec ?? (secret === undefined ? undefined : (createSignedContinuationCodec({ secret }) as unknown as ContinuationCodec<Token>));
  const needed = (): ContinuationCodec<Token> => {
    if (codec) return codec;
    throw new TypeError('Continuation signing is not configured. Set RUN_CONTINUATION_SECRET or pass continuationSecret or continuationCodec to createRunner().');
  };
  return {
    async run<Output>(input: RunInput<Token>): Promise<RunResult<Output, Token>> {
      const { source, hostFunctions = {}, abortSignal } = input;
      const limits = limitsOf(options.limits, input.limits);
      const { timeoutMs, maxSourceBytes, maxResultBytes } = limits;
      const bytes = Buffer.byteLength(source);
      if (bytes > maxSourceBytes) throw new RunSourceTooLargeError(bytes, maxSourceBytes);
      if (abortSignal?.aborted) throw new RunAbortedError();
      const script = scriptOf(source, hostFunctions);
      const scope = createHash('sha256').update(JSON.stringify([script, options.continuationAudience, input.continuationContext])).digest('base64');
      const state = input.continuation === undefined ? newState(scope) : await needed().decode(input.continuation);
      if (state.scope !== scope) throw new RunProtocolError('The continuation belongs to another script, other functions or another context.');
      if (input.continuation === undefined && input.resolutions?.length) throw new RunProtocolError('Interruption resolutions require a continuation.');
      const unknown = input.resolutions?.find(({ interruptionId }) => !state.calls.some((call) => call?.status === 'interrupted' && call.id === interruptionId));
      if (unknown) throw new RunProtocolError(`The continuation has no interruption ${unknown.interruptionId}.`);
      const execution = new Execution({ ...input, limits }, state);
      const schema = { type: 'object', properties: { index: { type: 'integer', minimum: 1, maximum: limits.maxBridgeRequests }, name: { type: 'string' }, args: { type: 'array' } }, required: ['index', 'name', 'args'] };
      await using sandbox = await createSandbox({
        ...options.sandbox,
        language: 'javascript',
        seed: BigInt(state.seed),
        clockNs: BigInt(state.clockNs),
        limits: {
          timeoutMs,
          fuel: timeoutMs * FUEL_PER_MS,
          memoryBytes: Math.max(limits.memoryLimitBytes, MIN_MEMORY_BYTES),
          toolTimeoutMs: timeoutMs,
          toolCalls: limits.maxBridgeRequests,
          toolCallsAtOnce: limits.maxInFlightBridgeRequests,
          toolBytes: Math.max(limits.maxHostFunctionArgumentsBytes, limits.maxHostFunctionOutputBytes),
        },
        tools: { host_function: { schema, execute: (call: Call, { signal }) => execution.answer(call, signal) } },
      });
      const session = await sandbox.session();
      try {
        const run = await session.execute(script, { name: 'code.ts', signal: execution.signal });
        if (!run.ok) throw failure(run, execution.errors, limits);
        return { status: 'completed', value: resultOf(run.value, maxResultBytes) as Output };
      } catch (error) {
        if (abortSignal?.aborted) throw new RunAbortedError();
        const { interruptions } = execution;
        if (interruptions.length === 0 || !execution.signal.aborted) throw error;
        return { status: 'interrupted', interruptions, continuation: await needed().encode(state) };
      } finally {
        execution.end();
        await session.close();
      }
    },
  };
}

/** Runs a script with the default options. */
export function run<Output = unknown>(input: RunInput<string>): Promise<RunResult<Output, string>> {
  return createRunner().run(input);
}
