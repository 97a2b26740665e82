// The options of sandboxes, executions and sessions, and their checks.
import type { BackendKind, Input, Mount, NetworkRecord, Policy } from './backend.ts';
import * as check from './check.ts';
import type { Limits as ContractLimits } from './component/contract.ts';
import type { ProviderModules } from './component/provider.ts';
import { type NamedTool, type Tools, toolsOf } from './tools.ts';
import type { CallAnswers } from './waiting.ts';

/** Limits on an execution's resources, as numbers or bigints. Omitted limits have their defaults. */
export type Limits = { [Name in keyof ContractLimits]?: number | bigint };

/** A secret of the host. Scripts see only a placeholder. */
export interface Secret {
  /** The environment variable of this process that contains the secret, read when the sandbox is created. */
  env: string;
  /** The only host that receives the secret, in request headers. */
  host: string;
}

/** The network permissions and limits of scripts. */
export interface Network {
  /** The allowed targets of requests: `SCHEME://HOST[:PORT][/PATH]`. */
  allow: readonly string[];
  /** Non-public address ranges that requests may reach, such as `127.0.0.0/8`. Default: none. */
  allowPrivate?: readonly string[];
  /**
   * Secrets, keyed by the environment variables that contain their placeholders in scripts. Default: none.
   */
  secrets?: Record<string, Secret>;
  /** The allowed methods. Default: `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` and `OPTIONS`. */
  methods?: readonly string[];
  /** Maximum number of requests per execution. Default: 50. */
  requestCount?: number | bigint;
  /** Maximum size of a request body, in bytes. Default: 1 MiB. */
  requestBytes?: number | bigint;
  /** Maximum size of a response body after decompression, in bytes. Default: 4 MiB. */
  responseBytes?: number | bigint;
  /**
   * Timeout of a request including its redirects and the body, in milliseconds. Default: 10,000. The timeouts of tool
   * calls and of the execution also apply.
   */
  timeoutMs?: number | bigint;
  /** Maximum number of redirects that the host follows per request, at most 5. Default: 5. */
  redirects?: number | bigint;
}

/** The options of a sandbox. */
export interface SandboxOptions {
  /** `python`, `javascript`, or the name of a runtime, such as a custom image (`glovebox image`). Default: `python`. */
  language?: string;
  /**
   * `native` is the engine in this process; `component` is a WebAssembly component, which runs on any platform. `wasm`,
   * the default, selects the first of these two that is available. `daemon` runs scripts in `glovebox daemon`. `auto`
   * uses the daemon if one answers and supports the options, and every tool has `execute`; otherwise, it is `wasm`.
   */
  backend?: 'auto' | 'wasm' | 'native' | 'component' | 'daemon';
  /**
   * With `backend: 'native'`, runs scripts in an ordinary Python interpreter in another process, WITHOUT a sandbox. The
   * scripts can read and write your files, use the network and start programs. This backend is never chosen
   * automatically. Default: false.
   */
  unsafeNative?: boolean;
  /** Limits on an execution's resources. */
  limits?: Limits;
  /** Timeout of an execution, in milliseconds; an alias of `limits.timeoutMs`. */
  timeout?: number;
  /** The host directory mounted at `/app`. Default: none; the workspace is in memory and starts with `files`. */
  workspace?: string;
  /** Selects the executions whose changes to host directories are written back. Default: `always`. */
  commit?: 'always' | 'on-success' | 'never';
  /** Further host directories, by their paths in the sandbox. Default: none. */
  mounts?: Record<string, string | Mount>;
  /** Functions that scripts can call. Default: none. */
  tools?: Tools;
  /** The files in the workspace when a script starts, by path. Default: none. */
  files?: Record<string, string | Uint8Array>;
  /** Environment variables for scripts, by name. Default: none. */
  env?: Record<string, string>;
  /** The script arguments, after the script's name. Default: none. */
  args?: readonly string[];
  /** Seed of the random number generator; scripts see the same numbers every time. Default: a random seed. */
  seed?: number | bigint;
  /** Fixes the clock at this time, in nanoseconds since 1970. Default: a running clock. */
  clockNs?: number | bigint;
  /** The schedule of a session's automatic checkpoints; a number N means every N executions. Default: `auto`. */
  checkpoints?: 'auto' | 'always' | 'never' | number;
  /** The action after a session's script was stopped by force. Default: `roll-back`. */
  onUnwind?: 'roll-back' | 'end';
  /**
   * Keeps variables between executions, if JSON can represent them: saves them in the workspace, and loads them in the
   * next execution. Default: false.
   */
  autoPersistGlobals?: boolean;
  /** `none` does not count fuel: scripts run faster, and only the timeout stops an endless script. Default: `fuel`. */
  metering?: 'fuel' | 'none';
  /** `false` runs Python without the bundled packages. Default: true. */
  packages?: boolean;
  /** The network permissions of `fetch`, `urllib.request` and `requests`. Default: no network. */
  network?: Network;
  /** Called with a description of each slow step. Default: no reports. */
  progress?: (text: string) => void;
  /**
   * Runs the component in a worker. Default: true if the platform has workers and, if there are tools, shared memory.
   */
  worker?: boolean;
  /**
   * Milliseconds from a script's cancellation to the termination of the component's worker. Default: 1,000.
   */
  terminateAfterMs?: number;
  /** The URL of the component's directory, or several URLs to try in order. Default: the package's own copy. */
  indexURL?: string | URL | readonly (string | URL)[];
  /** An alias of `indexURL`. */
  componentUrls?: string | URL | readonly (string | URL)[];
  /**
   * The expected hashes of the component's files, by file name (`sha256-…`, `sha384-…` or `sha512-…`, in base64).
   * Default: with `indexURL`, the hashes of this package's build; the package's own copy is not checked. `false`
   * disables the check.
   */
  integrity?: Record<string, string> | false;
  /**
   * A component whose WebAssembly is already compiled, for platforms that cannot compile at run time: the default
   * export of `glovebox-sandbox/providers/NAME/modules.js`. It runs on the calling thread, as with `worker: false`.
   */
  provider?: ProviderModules;
}

/** The options of an execution. */
export interface ExecuteOptions {
  /**
   * The file name shown in tracebacks. A name that ends in `.ts` marks the script as TypeScript. Default: `<sandbox>`.
   */
  name?: string;
  /** The parse mode of JavaScript source. Default: `detect`. */
  kind?: 'detect' | 'script' | 'module';
  /** The script's standard input. Default: empty. */
  stdin?: string | Uint8Array;
  /**
   * The value of the script's global variable `context`. JSON must be able to represent the value, except that bigints
   * become integers. Default: no such variable.
   */
  context?: unknown;
  /** Milliseconds after which the execution is cancelled. Default: never. */
  timeoutMs?: number;
  /**
   * Called with standard output as the script writes it. With a component, called after the script has ended.
   */
  onStdout?: (text: string) => void;
  /** Called with standard error, like `onStdout`. */
  onStderr?: (text: string) => void;
  /**
   * Cancels the execution: the script is interrupted, then stopped by force. The promise is rejected with the reason of
   * the signal.
   */
  signal?: AbortSignal;
}

/** The options of a check without execution. */
export interface ValidateOptions extends Pick<ExecuteOptions, 'name' | 'kind'> {
  /**
   * Also checks the types of a Python script without syntax errors, for example the arguments of its tool calls. Requires
   * `backend: 'daemon'` and `glovebox daemon --types`. Default: false.
   */
  types?: boolean;
}

/** The options for listening to an execution and for cancelling it. */
export type ListenOptions = Pick<ExecuteOptions, 'onStdout' | 'onStderr' | 'signal'>;

/**
 * The options for resuming a suspended run. `timeoutMs` counts from the resumption, and the listeners receive only new
 * output.
 */
export interface ResumeOptions extends CallAnswers, Pick<ExecuteOptions, 'timeoutMs' | 'onStdout' | 'onStderr' | 'signal'> {}

/** The options of a session. */
export interface SessionOptions {
  /** The value of the global variable `context`, in which bigints become integers. Default: no such variable. */
  context?: unknown;
  /** The session's ID. Default: a generated ID. */
  id?: string;
}

/** The options for loading and running a component. */
export interface ComponentOptions {
  worker: boolean | undefined;
  terminateAfterMs: number;
  urls: string[];
  integrity: Record<string, string> | false | undefined;
  provider: ProviderModules | undefined;
}

/** The requested backend. */
export type BackendChoice = 'auto' | 'wasm' | BackendKind;

/** The checked options of a sandbox. */
export interface Checked {
  language: string;
  backend: BackendChoice;
  policy: Policy;
  tools: NamedTool[];
  progress: ((text: string) => void) | undefined;
  component: ComponentOptions;
}

const OPTIONS = [
  'language', 'backend', 'unsafeNative', 'limits', 'timeout', 'workspace', 'commit', 'mounts', 'tools', 'files', 'env', 'args', 'seed', 'clockNs',
  'checkpoints', 'onUnwind', 'autoPersistGlobals', 'metering', 'packages', 'network', 'progress', 'worker', 'terminateAfterMs', 'indexURL',
  'componentUrls', 'integrity', 'provider',
] as const satisfies (keyof SandboxOptions)[];

const LIMITS = [
  'fuel', 'fuelReserve', 'timeoutMs', 'timeoutReserveMs', 'memoryBytes', 'stdoutBytes', 'stderrBytes', 'displayBytes', 'sourceBytes',
  'stdinBytes',
  'workspaceBytes', 'workspaceInodes', 'openFiles', 'toolCalls', 'toolCallsAtOnce', 'toolTimeoutMs', 'toolBytes', 'toolRecordBytes',
  'persistedBytes', 'sessionCount', 'sessionTotalBytes',
] as const satisfies (keyof Limits)[];
/** The limits that the contract declares as 32-bit numbers. */
export const NARROW: ReadonlySet<string> = new Set(['openFiles', 'toolCallsAtOnce', 'sessionCount'] satisfies (keyof Limits)[]);
/** Fails to compile if the contract has a limit that `LIMITS` omits. */
const _all: (typeof LIMITS)[number] = null as unknown as keyof Limits;
void _all;

/** Checks the options of a sandbox. */
export function checked(options: SandboxOptions): Checked {
  check.known('options', options, OPTIONS);
  const given = options;
  if (given.indexURL !== undefined && given.componentUrls !== undefined) throw new TypeError('indexURL and componentUrls are aliases; set only one of them');
  const tools = toolsOf('tools', given.tools);
  const text = (name: string, value: unknown): string => check.of(name, 'string', value);
  const checkpoints = given.checkpoints;
  const policy: Policy = {
    limits: limitsOf(given.limits, given.timeout),
    workspace: given.workspace === undefined ? undefined : text('workspace', given.workspace),
    commit: check.oneOf('commit', ['always', 'on-success', 'never'], given.commit ?? 'always'),
    mounts: check.entries('mounts', given.mounts, mountOf),
    tools: tools.map(({ name, description, schema, call }, index) => ({
      name,
      description,
      schema: check.json(`tools[${index}].schema`, schema),
      waits: call === undefined,
    })),
    files: check.entries('files', given.files, check.contents),
    env: check.entries('env', given.env, text),
    args: check.list('args', given.args, text),
    seed: given.seed === undefined ? undefined : check.whole('seed', given.seed),
    clockNs: given.clockNs === undefined ? undefined : check.whole('clockNs', given.clockNs),
    checkpoints:
      checkpoints === undefined || typeof checkpoints === 'string'
        ? checkpoints && check.oneOf('checkpoints', ['auto', 'always', 'never'], checkpoints)
        : check.whole('checkpoints', checkpoints, check.MAX_NARROW),
    onUnwind: given.onUnwind === undefined ? undefined : check.oneOf('onUnwind', ['roll-back', 'end'], given.onUnwind),
    autoPersistGlobals: check.optional('autoPersistGlobals', 'boolean', given.autoPersistGlobals) ?? false,
    metering: check.oneOf('metering', ['fuel', 'none'], given.metering ?? 'fuel'),
    packages: check.optional('packages', 'boolean', given.packages),
    network: networkOf(given.network),
  };
  return {
    language: text('language', given.language ?? 'python'),
    backend: choose(given.backend, check.optional('unsafeNative', 'boolean', given.unsafeNative) ?? false),
    policy,
    tools,
    progress: check.optional('progress', 'function', given.progress) as Checked['progress'],
    component: {
      worker: check.optional('worker', 'boolean', given.worker),
      terminateAfterMs: Number(check.whole('terminateAfterMs', given.terminateAfterMs ?? 1000)),
      urls: urlsOf(given.indexURL === undefined ? 'componentUrls' : 'indexURL', given.indexURL ?? given.componentUrls),
      integrity: given.integrity === false ? false : given.integrity && Object.fromEntries(check.entries('integrity', given.integrity, text)),
      provider: modulesOf(given),
    },
  };
}

/** Returns the requested backend. The backend without a sandbox must be selected with both the name and the flag. */
function choose(given: unknown, unsafeNative: boolean): BackendChoice {
  const backend = check.oneOf('backend', ['auto', 'wasm', 'native', 'component', 'daemon'], given ?? 'wasm');
  if (!unsafeNative) return backend;
  if (backend !== 'native') {
    throw new TypeError(
      'unsafeNative requires an explicit backend: "native": it runs scripts in an ordinary Python interpreter, without a sandbox, where they can ' +
        'read and write your files, use the network and start programs',
    );
  }
  return 'unsafe-native';
}

function modulesOf({ provider, backend, worker, indexURL, componentUrls }: SandboxOptions): ProviderModules | undefined {
  if (provider === undefined) return undefined;
  check.known('provider', provider, ['component', 'compiled']);
  check.of('provider.component.instantiate', 'function', provider.component?.instantiate);
  check.entries('provider.compiled', provider.compiled, (name, value) => check.object(name, 'a WebAssembly.Module', value));
  if (backend === 'native' || backend === 'daemon') throw new TypeError(`provider requires the component backend; remove backend: "${backend}"`);
  if (worker) throw new TypeError("provider runs on the caller's own thread; remove worker: true");
  if (indexURL !== undefined || componentUrls !== undefined) throw new TypeError('provider and indexURL both name a component; set only one of them');
  return provider;
}

const NETWORK_NUMBERS = ['requestCount', 'requestBytes', 'responseBytes', 'timeoutMs', 'redirects'] as const satisfies (keyof Network)[];
const NETWORK = ['allow', 'allowPrivate', 'secrets', 'methods', ...NETWORK_NUMBERS] as const satisfies (keyof Network)[];

function networkOf(network: Network | undefined): NetworkRecord | undefined {
  if (network === undefined) return undefined;
  check.known('network', network, NETWORK);
  const text = (name: string, value: unknown): string => check.of(name, 'string', value);
  const secret = (name: string, value: unknown): Secret => {
    check.known(name, value, ['env', 'host']);
    return { env: text(`${name}.env`, (value as Secret).env), host: text(`${name}.host`, (value as Secret).host) };
  };
  const numbers = NETWORK_NUMBERS.filter((name) => network[name] !== undefined);
  return {
    allow: check.list('network.allow', network.allow, text),
    allowPrivate: check.list('network.allowPrivate', network.allowPrivate, text),
    methods: network.methods && check.list('network.methods', network.methods, text),
    secrets: check.entries('network.secrets', network.secrets, secret),
    numbers: numbers.map((name) => [name, check.whole(`network.${name}`, network[name])]),
  };
}

function limitsOf(limits: Limits = {}, timeout: number | undefined): Record<string, bigint> {
  check.known('limits', limits, LIMITS);
  const named = Object.entries(limits).filter(([, value]) => value !== undefined);
  const of = Object.fromEntries(named.map(([name, value]) => [name, check.whole(`limits.${name}`, value, NARROW.has(name) ? check.MAX_NARROW : undefined)]));
  if (timeout === undefined) return of;
  if (of['timeoutMs'] !== undefined) throw new TypeError('timeout and limits.timeoutMs are aliases; set only one of them');
  return { ...of, timeoutMs: check.whole('timeout', timeout) };
}

function mountOf(name: string, mount: unknown): Required<Mount> {
  if (typeof mount === 'string') return { host: check.of(name, 'string', mount), readOnly: false };
  check.known(name, mount, ['host', 'readOnly']);
  const { host, readOnly } = mount as Mount;
  return { host: check.of(`${name}.host`, 'string', host), readOnly: check.optional(`${name}.readOnly`, 'boolean', readOnly) ?? false };
}

function urlsOf(name: string, urls: unknown): string[] {
  if (urls === undefined) return [];
  const each = (at: string, url: unknown): string => {
    const text = url instanceof URL ? url.href : check.of(at, 'string', url);
    if (!URL.canParse(text)) throw new TypeError(`${at} must be an absolute URL, not ${JSON.stringify(text)}`);
    return text.endsWith('/') ? text : `${text}/`;
  };
  return Array.isArray(urls) ? check.list(name, urls, each) : [each(name, urls)];
}

const EXECUTE = ['name', 'kind', 'stdin', 'context', 'timeoutMs', 'onStdout', 'onStderr', 'signal'] as const satisfies (keyof ExecuteOptions)[];

function checkListeners({ onStdout, onStderr, signal }: ListenOptions): void {
  check.optional('onStdout', 'function', onStdout);
  check.optional('onStderr', 'function', onStderr);
  check.signal('signal', signal);
}

function timeoutOf({ timeoutMs }: Pick<ExecuteOptions, 'timeoutMs'>): number | undefined {
  return timeoutMs === undefined ? undefined : Number(check.whole('timeoutMs', timeoutMs));
}

/** Checks the input of an execution. */
export function inputOf(source: unknown, options: ExecuteOptions): Input {
  check.known('options', options, EXECUTE);
  checkListeners(options);
  return {
    source: check.of('source', 'string', source),
    name: check.optional('name', 'string', options.name),
    kind: options.kind === undefined ? undefined : check.oneOf('kind', ['detect', 'script', 'module'], options.kind),
    stdin: options.stdin === undefined ? undefined : check.contents('stdin', options.stdin),
    context: options.context === undefined ? undefined : check.json('context', options.context),
    timeoutMs: timeoutOf(options),
  };
}

const RESUME = ['answers', 'denied', 'failed', 'timeoutMs', 'onStdout', 'onStderr', 'signal'] as const satisfies (keyof ResumeOptions)[];

/** Checks the options for resuming a suspended run, except the answers. Returns the timeout. */
export function resumeTimeout(options: ResumeOptions): number | undefined {
  check.known('options', options, RESUME);
  checkListeners(options);
  return timeoutOf(options);
}

/** Checks the options of a session. */
export function sessionOptions(options: SessionOptions): { id: string | undefined; context: string | undefined } {
  check.known('options', options, ['context', 'id']);
  return {
    id: check.optional('id', 'string', options.id),
    context: options.context === undefined ? undefined : check.json('context', options.context),
  };
}
