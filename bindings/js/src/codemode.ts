/**
 * An executor for `@cloudflare/codemode`: runs model-written code in a sandbox, where it can call the host's tools. The
 * module imports nothing from the framework.
 */
import { Opaque, type Sandbox, type SandboxOptions, createSandbox } from 'glovebox-sandbox';
import { stringifyJson } from './json.ts';
import { DEFAULT_LIMITS, MAX_CHARACTERS, shorten } from './report.ts';

/** The result of an execution: the framework's `ExecuteResult`. */
export interface ExecuteResult {
  result: unknown;
  error?: string;
  logs?: string[];
}

type HostFunction = (...values: unknown[]) => Promise<unknown>;

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

const NAME = /^[A-Za-z_$][\w$]*$/;

/**
 * Builds the script: the namespaces, whose functions call the host, followed by the code, which is an async arrow
 * function.
 */
function scriptOf(run: string, providers: { name: string; prelude?: string }[], code: string): string {
  const lines = providers.map(({ name, prelude }) => {
    const call = `(...args) => tools.host_function({ run: ${JSON.stringify(run)}, provider: ${JSON.stringify(name)}, name, args })`;
    return `var ${name} = new Proxy(Object.create(null), { get: (own, name) => name in own ? own[name] : name === 'then' ? undefined : ${call} });\n${prelude ?? ''}`;
  });
  return `${lines.join('\n')}\nawait (${code}\n)()`;
}

/**
 * Converts bigints to numbers, which rounds large integers: the framework and its tools expect plain JSON, and
 * `JSON.stringify` rejects bigints.
 */
function rounded(value: unknown): any {
  return value === undefined || value instanceof Opaque ? value : JSON.parse(stringifyJson(value));
}

/** Runs code for `createCodeTool({ tools, executor })`. By default an execution times out after 60 seconds. */
export class GloveboxExecutor implements AsyncDisposable {
  readonly #options: GloveboxExecutorOptions;
  readonly #runs = new Map<string, (provider: string, name: string, values: unknown[]) => Promise<unknown>>();
  #sandbox: Promise<Sandbox> | undefined;

  constructor(options: GloveboxExecutorOptions = {}) {
    this.#options = options;
  }

  #open(): Promise<Sandbox> {
    const { limits, timeout } = this.#options;
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
        return answer(provider, name, rounded(args));
      },
    };
    this.#sandbox ??= createSandbox({
      ...this.#options,
      language: 'javascript',
      limits: timeout === undefined ? { ...DEFAULT_LIMITS, ...limits } : (limits ?? {}),
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
    // Scripts must not be able to guess the ID: concurrent scripts must not call each other's functions.
    const run = crypto.randomUUID();
    try {
      const all = [...given, ...connectors];
      const odd = all.find(({ name }) => !NAME.test(name));
      if (odd) throw new TypeError(`the name of a provider must be an identifier, not ${JSON.stringify(odd.name)}`);
      this.#runs.set(run, async (provider, name, values) => {
        const connector = connectors.find((each) => each.name === provider);
        if (connector) return connector.binding.callTool(name, values[0]);
        const fns = given.find((each) => each.name === provider)?.fns;
        if (!fns || !Object.hasOwn(fns, name)) throw new Error(`there is no function ${provider}.${name}`);
        return fns[name]?.(...values);
      });
      const sandbox = await this.#open();
      await using session = await sandbox.session();
      const did = await session.execute(scriptOf(run, all, code), { name: 'code.js' });
      const logs = did.stdout.split('\n').slice(0, -1);
      const printed = logs.length > 0 ? { logs: shorten(logs.join('\n'), MAX_CHARACTERS).split('\n') } : {};
      if (did.ok) return { result: rounded(did.value), ...printed };
      const { message } = did.outcome;
      const advice = did.guidance.advice.map(({ summary }) => summary);
      return { result: undefined, error: [message || did.outcome.toString(), ...advice].join('\n'), ...printed };
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
