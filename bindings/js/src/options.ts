// How a sandbox is made, and what is checked of that.
import type { BackendKind, Input, Mount, NetworkRecord, Policy } from './backend.ts';
import * as check from './check.ts';
import type { Limits as ContractLimits } from './component/contract.ts';
import type { ProviderModules } from './component/provider.ts';
import { type NamedTool, type Tools, toolsOf } from './tools.ts';

/** How much an execution may use, as numbers or bigints; what is left out has its default. */
export type Limits = { [Name in keyof ContractLimits]?: number | bigint };

/** A secret of the host's, for which scripts have a placeholder. */
export interface Secret {
  /** The environment variable of this process that has it, read when the sandbox is made. */
  env: string;
  /** The one host that it is sent to, in the headers of requests. */
  host: string;
}

/** What scripts may reach of the network; what is left out has the engine's default. */
export interface Network {
  /** Where requests may go: `SCHEME://HOST[:PORT][/PATH]`. */
  allow: readonly string[];
  /** Ranges of addresses that are not public and may be reached all the same. */
  allowPrivate?: readonly string[];
  /** Secrets, by the environment variables in which scripts find their placeholders. */
  secrets?: Record<string, Secret>;
  /** The methods of requests. */
  methods?: readonly string[];
  /** Requests of one execution. */
  requestCount?: number | bigint;
  /** Bytes of a request's body. */
  requestBytes?: number | bigint;
  /** Bytes of a response's body. */
  responseBytes?: number | bigint;
  /** Milliseconds that a request may take. */
  timeoutMs?: number | bigint;
  /** Redirects that the host follows for one request. */
  redirects?: number | bigint;
}

/** How a sandbox is made. */
export interface SandboxOptions {
  /** `python`, `javascript`, or a runtime's name, such as that of an image of your own (`glovebox image`). Default: `python`. */
  language?: string;
  /**
   * `native` is the engine in this process; `component` is a WebAssembly component, anywhere; `wasm`, the default, is the first of them that is
   * here. `daemon` has `glovebox daemon` run the scripts, and `auto` takes one that answers and can do what is asked, else `wasm`.
   */
  backend?: 'auto' | 'wasm' | 'native' | 'component' | 'daemon';
  /**
   * With `backend: 'native'`: runs scripts in an ordinary Python in another process, WITHOUT a sandbox. They can read and write your files, use
   * the network and start programs. Nothing chooses it by itself. Default: false.
   */
  unsafeNative?: boolean;
  /** How much an execution may use. */
  limits?: Limits;
  /** Milliseconds that an execution may take: the same as `limits.timeoutMs`. */
  timeout?: number;
  /** The directory of the host behind `/app`. Default: none, the workspace is in memory and begins with `files`. */
  workspace?: string;
  /** When what a script wrote to host directories reaches them. Default: `always`. */
  commit?: 'always' | 'on-success' | 'never';
  /** Further directories of the host, by their paths in the sandbox. */
  mounts?: Record<string, string | Mount>;
  /** Functions that scripts may call. */
  tools?: Tools;
  /** The files in the workspace when a script begins. */
  files?: Record<string, string | Uint8Array>;
  /** What scripts find in their environment. */
  env?: Record<string, string>;
  /** What scripts find after their name. */
  args?: readonly string[];
  /** Makes random numbers the same every time. */
  seed?: number | bigint;
  /** Has the clock stand still at this time since 1970, in nanoseconds. */
  clockNs?: number | bigint;
  /** When sessions save their state by themselves, or once every so many executions. */
  checkpoints?: 'auto' | 'always' | 'never' | number;
  /** What becomes of a session whose script had to be stopped by force. */
  onUnwind?: 'roll-back' | 'end';
  /** Keeps what JSON has a form for of one execution's variables for the next. Default: false. */
  autoPersistGlobals?: boolean;
  /** `none` counts no fuel: scripts are faster, and time alone ends one that does not end. Default: `fuel`. */
  metering?: 'fuel' | 'none';
  /** `false` runs Python without the bundled packages. */
  packages?: boolean;
  /** What scripts may reach with `fetch`, `urllib.request` and `requests`. Default: nothing. */
  network?: Network;
  /** Told what takes long. Default: nobody. */
  progress?: (text: string) => void;
  /** Component: whether it runs in a worker. Default: where there are workers and, for tools, shared memory. */
  worker?: boolean;
  /** Component, in a worker: milliseconds that a cancelled script has before its worker is terminated. Default: 1,000. */
  terminateAfterMs?: number;
  /** Component: the URL of the directory that it is loaded from, or several that are tried in their order. Default: the package's own. */
  indexURL?: string | URL | readonly (string | URL)[];
  /** The same as `indexURL`. */
  componentUrls?: string | URL | readonly (string | URL)[];
  /**
   * Component: what its files must hash to (`sha256-…`, `sha384-…` or `sha512-…`, in base64), by their names. Default: the files of this
   * package's build; `false` takes whatever comes.
   */
  integrity?: Record<string, string> | false;
  /**
   * Component: one whose WebAssembly is compiled already, the default export of `glovebox-sandbox/providers/NAME/modules.js`, for places that
   * compile none. It runs on the caller's own thread, as with `worker: false`.
   */
  provider?: ProviderModules;
}

/** How a script is run. */
export interface ExecuteOptions {
  /** What tracebacks show. A name that ends in `.ts` says that the script is TypeScript. */
  name?: string;
  /** How JavaScript is parsed. Default: `detect`. */
  kind?: 'detect' | 'script' | 'module';
  /** What it reads from standard input. */
  stdin?: string | Uint8Array;
  /** A value that JSON has: the script finds it in the variable of this name. */
  context?: unknown;
  /** Milliseconds after which it is cancelled. */
  timeoutMs?: number;
  /** Called with what it writes to standard output, as it writes it; with a component, when it has ended. */
  onStdout?: (text: string) => void;
  /** The same for standard error. */
  onStderr?: (text: string) => void;
  /** Cancels it: the script is asked to stop, then stopped, and the promise is rejected with the signal's reason. */
  signal?: AbortSignal;
}

/** How a session is opened. */
export interface SessionOptions {
  /** What its scripts find in the global variable `context`. */
  context?: unknown;
  /** Its id. Default: one that is made up. */
  id?: string;
}

/** Where a component comes from, and how it runs. */
export interface ComponentOptions {
  worker: boolean | undefined;
  terminateAfterMs: number;
  urls: string[];
  integrity: Record<string, string> | false | undefined;
  provider: ProviderModules | undefined;
}

/** Which backend is meant. */
export type BackendChoice = 'auto' | 'wasm' | BackendKind;

/** The options, checked. */
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
/** The limits that are numbers of 32 bits. */
export const NARROW: ReadonlySet<string> = new Set(['openFiles', 'toolCallsAtOnce', 'sessionCount'] satisfies (keyof Limits)[]);
/** Fails to compile where the contract has a limit that is not listed. */
const _all: (typeof LIMITS)[number] = null as unknown as keyof Limits;
void _all;

/** Checks what a sandbox is given. */
export function checked(options: SandboxOptions): Checked {
  check.known('options', options, OPTIONS);
  const given = options;
  if (given.indexURL !== undefined && given.componentUrls !== undefined) throw new TypeError('indexURL and componentUrls are the same: give one');
  const tools = toolsOf('tools', given.tools);
  const text = (name: string, value: unknown): string => check.of(name, 'string', value);
  const checkpoints = given.checkpoints;
  const policy: Policy = {
    limits: limitsOf(given.limits, given.timeout),
    workspace: given.workspace === undefined ? undefined : text('workspace', given.workspace),
    commit: check.oneOf('commit', ['always', 'on-success', 'never'], given.commit ?? 'always'),
    mounts: check.entries('mounts', given.mounts, mountOf),
    tools: tools.map(({ name, description, schema }, index) => ({ name, description, schema: check.json(`tools[${index}].schema`, schema) })),
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

/** Which backend is meant. Only its name and the flag together mean one without a sandbox. */
function choose(given: unknown, unsafeNative: boolean): BackendChoice {
  const backend = check.oneOf('backend', ['auto', 'wasm', 'native', 'component', 'daemon'], given ?? 'wasm');
  if (!unsafeNative) return backend;
  if (backend !== 'native') {
    throw new TypeError(
      'unsafeNative goes with backend: "native" and nothing else: it runs scripts in an ordinary Python, without a sandbox, where they can read ' +
        'and write your files, use the network and start programs, and nothing may choose that by itself',
    );
  }
  return 'unsafe-native';
}

function modulesOf({ provider, backend, worker, indexURL, componentUrls }: SandboxOptions): ProviderModules | undefined {
  if (provider === undefined) return undefined;
  check.known('provider', provider, ['component', 'compiled']);
  check.of('provider.component.instantiate', 'function', provider.component?.instantiate);
  check.entries('provider.compiled', provider.compiled, (name, value) => check.object(name, 'a WebAssembly.Module', value));
  if (backend === 'native' || backend === 'daemon') throw new TypeError(`provider is of a component; leave out backend: "${backend}"`);
  if (worker) throw new TypeError("provider runs on the caller's own thread; leave out worker: true");
  if (indexURL !== undefined || componentUrls !== undefined) throw new TypeError('provider and indexURL both name a component: give one');
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
  if (of['timeoutMs'] !== undefined) throw new TypeError('timeout and limits.timeoutMs are the same: give one');
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
    if (!URL.canParse(text)) throw new TypeError(`${at} must be a whole URL, not ${JSON.stringify(text)}`);
    return text.endsWith('/') ? text : `${text}/`;
  };
  return Array.isArray(urls) ? check.list(name, urls, each) : [each(name, urls)];
}

const EXECUTE = ['name', 'kind', 'stdin', 'context', 'timeoutMs', 'onStdout', 'onStderr', 'signal'] as const satisfies (keyof ExecuteOptions)[];

/** Checks what an execution is given. */
export function inputOf(source: unknown, options: ExecuteOptions): Input {
  check.known('options', options, EXECUTE);
  check.optional('onStdout', 'function', options.onStdout);
  check.optional('onStderr', 'function', options.onStderr);
  check.signal('signal', options.signal);
  return {
    source: check.of('source', 'string', source),
    name: check.optional('name', 'string', options.name),
    kind: options.kind === undefined ? undefined : check.oneOf('kind', ['detect', 'script', 'module'], options.kind),
    stdin: options.stdin === undefined ? undefined : check.contents('stdin', options.stdin),
    context: options.context === undefined ? undefined : check.json('context', options.context),
    timeoutMs: options.timeoutMs === undefined ? undefined : Number(check.whole('timeoutMs', options.timeoutMs)),
  };
}

/** The options of a session, checked. */
export function sessionOptions(options: SessionOptions): { id: string | undefined; context: string | undefined } {
  check.known('options', options, ['context', 'id']);
  return {
    id: check.optional('id', 'string', options.id),
    context: options.context === undefined ? undefined : check.json('context', options.context),
  };
}
