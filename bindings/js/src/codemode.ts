/**
 * An executor for `@cloudflare/codemode`: runs model-written code in a sandbox, where it can call the host's tools. The
 * module imports nothing from the framework.
 */
import { Opaque, type Sandbox, type SandboxOptions, createSandbox } from 'glovebox-sandbox';
import { SANDBOX_CODEC, decode, encode } from './binary.ts';
import { checkNames, functionsOf } from './codemode-names.ts';
import { stringifyJson } from './json.ts';
import { MAX_CHARACTERS, adapterLimits, shorten } from './report.ts';

/** The result of an execution: the framework's `ExecuteResult`. */
export interface ExecuteResult {
  result: unknown;
  error?: string;
  logs?: string[];
}

/** A function of the host that scripts can call. */
export type HostFunction = (...values: unknown[]) => Promise<unknown>;

/** Functions in a namespace: the framework's `ResolvedProvider`. */
export interface ResolvedProvider {
  name: string;
  fns: Record<string, HostFunction>;
  /** JavaScript to run in the sandbox before the code. */
  prelude?: string;
}

/** A connector: the framework's `ConnectorBinding`. */
export interface ConnectorBinding {
  name: string;
  binding: { callTool(method: string, parameters: unknown): Promise<unknown> };
}

/** The options of a sandbox, except those that the executor sets itself. */
export type GloveboxExecutorOptions = Omit<SandboxOptions, 'language' | 'tools'>;

/** The property of a connector's result that asks the script to stop. */
const CONTROL = '__codemode_control__';

/**
 * The error name of a script that must stop until a person has approved its call. The framework recognizes the name.
 */
const PAUSED = '__CODEMODE_PAUSE__';

/** The source that runs in the sandbox before the code. It adds warnings and errors to the logs. */
const PREPARE = `var __glovebox = ((host, log) => {
  ${SANDBOX_CODEC}
  console.warn = (...values) => log('[warn]', ...values);
  console.error = (...values) => log('[error]', ...values);
  const result = (value) => { try { return encode(value); } catch { return value; } };
  return { result, call: async (request) => decode((await host({ ...request, args: encode(request.args) })).result) };
})(tools.host_function, console.log);`;

/**
 * Builds the script: the namespaces, whose functions call the host, followed by the code. The code is an async arrow
 * function.
 */
function scriptOf(run: string, providers: { name: string; prelude?: string }[], code: string): string {
  const lines = providers.map(({ name, prelude }) => {
    const call = `(...args) => __glovebox.call({ run: ${JSON.stringify(run)}, provider: ${JSON.stringify(name)}, name, args })`;
    return `var ${name} = new Proxy(Object.create(null), { get: (own, name) => name in own ? own[name] : name === 'then' || typeof name !== 'string' ? undefined : ${call} });\n${prelude ?? ''}`;
  });
  return `${PREPARE}\n${lines.join('\n')}\n__glovebox.result(await (${code}\n)())`;
}

/** Returns a connector's result. Throws if the connector asks the script to stop, or reports an error. */
function controlled(result: any): unknown {
  const control = result?.[CONTROL];
  if (control === 'pause') throw new Error(PAUSED);
  if (control === 'error') throw new Error(String(result.message));
  return result;
}

/**
 * Converts bigints to numbers, and rounds large integers. The framework and its tools expect plain JSON, and
 * `JSON.stringify` rejects bigints.
 */
function rounded(value: unknown): any {
  return value === undefined || value instanceof Opaque ? value : JSON.parse(stringifyJson(value));
}

/** The executor for `createCodeTool({ tools, executor })`. By default, an execution times out after 60 seconds. */
export class GloveboxExecutor implements AsyncDisposable {
  readonly #options: GloveboxExecutorOptions;
  readonly #runs = new Map<string, (provider: string, name: string, values: unknown[]) => Promise<unknown>>();
  #sandbox: Promise<Sandbox> | undefined;

  constructor(options: GloveboxExecutorOptions = {}) {
    this.#options = options;
  }

  #open(): Promise<Sandbox> {
    const tool = {
      description: 'Calls a function of the host.',
      schema: {
        type: 'object',
        properties: { run: { type: 'string' }, provider: { type: 'string' }, name: { type: 'string' }, args: { type: 'array' } },
        required: ['run', 'provider', 'name', 'args'],
      },
      execute: async ({ run, provider, name, args }: { run: string; provider: string; name: string; args: unknown[] }) => {
        const answer = this.#runs.get(run);
        if (!answer) throw new Error('the execution has ended');
        // Without a result, the script receives `undefined`.
        return { result: encode(await answer(provider, name, decode(rounded(args)) as unknown[])) };
      },
    };
    this.#sandbox ??= createSandbox({
      ...this.#options,
      language: 'javascript',
      limits: adapterLimits(this.#options),
      tools: { host_function: tool },
    });
    this.#sandbox.catch(() => (this.#sandbox = undefined));
    return this.#sandbox;
  }

  /** Runs code. Never throws: an error is part of the result. */
  async execute(
    code: string,
    providersOrFns: readonly ResolvedProvider[] | Record<string, HostFunction>,
    { connectors = [] }: { connectors?: readonly ConnectorBinding[] } = {},
  ): Promise<ExecuteResult> {
    const given = Array.isArray(providersOrFns)
      ? (providersOrFns as readonly ResolvedProvider[])
      : [{ name: 'codemode', fns: providersOrFns as Record<string, HostFunction> }];
    // The ID is random, because a script that guessed the ID of a concurrent script could call its functions.
    const run = crypto.randomUUID();
    try {
      const all = [...given, ...connectors];
      checkNames(given, connectors);
      const functions = new Map(given.map((provider) => [provider.name, functionsOf(provider)]));
      this.#runs.set(run, async (provider, name, values) => {
        const connector = connectors.find((each) => each.name === provider);
        if (connector) return controlled(await connector.binding.callTool(name, values[0]));
        const all = functions.get(provider);
        // The framework's types for the model append `_` to reserved words.
        const call = all?.get(name) ?? (name.endsWith('_') ? all?.get(name.slice(0, -1)) : undefined);
        if (!call) throw new Error(`Tool ${JSON.stringify(name)} not found`);
        return call(...values);
      });
      const sandbox = await this.#open();
      await using session = await sandbox.session();
      const did = await session.execute(scriptOf(run, all, code), { name: 'code.js' });
      const logs = did.stdout.split('\n').slice(0, -1);
      const printed = logs.length > 0 ? { logs: shorten(logs.join('\n'), MAX_CHARACTERS).split('\n') } : {};
      if (did.ok) return { result: decode(rounded(did.value)), ...printed };
      const { message, resource } = did.outcome;
      const advice = did.guidance.advice.map(({ summary }) => summary);
      const cause = message || did.outcome.toString();
      const error = resource === 'time' ? `execution timed out (${cause})` : cause;
      return { result: undefined, error: [error, ...advice].join('\n'), ...printed };
    } catch (error) {
      return { result: undefined, error: error instanceof Error ? error.message : String(error) };
    } finally {
      this.#runs.delete(run);
    }
  }

  /** Releases the sandbox. */
  async close(): Promise<void> {
    const sandbox = await this.#sandbox?.catch(() => undefined);
    this.#sandbox = undefined;
    await sandbox?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
