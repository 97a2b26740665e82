// Creates sandboxes with the features of the platform.
import type { Backend, Host, Policy } from './backend.ts';
import { openComponent, direct, refuse } from './component/backend.ts';
import { openInWorker } from './component/client.ts';
import { type Place, compiledProvider, loadParts, providerOfParts } from './component/load.ts';
import type { StartWorker } from './component/messages.ts';
import { errorOf } from './errors.ts';
import { type ComponentOptions, type SandboxOptions, checked } from './options.ts';
import { Sandbox } from './sandbox.ts';
import { type Answer, answer, answerNow, isAnswering } from './tools.ts';

/** The functions that differ between Node.js and the Web. */
export interface Platform {
  /** Opens a sandbox on the engine, or returns the reason why the engine is unavailable. */
  openNative?: (language: string, policy: Policy, host: Host) => Promise<Backend> | Error;
  /** Opens a sandbox in the daemon. */
  openDaemon?: (language: string, policy: Policy, host: Host) => Promise<Backend>;
  /** Opens an ordinary Python interpreter, WITHOUT a sandbox. */
  openUnsafe?: (language: string, policy: Policy, host: Host) => Promise<Backend>;
  /** Loads the hashes and URLs of the package's own providers. */
  own(): Promise<Own>;
  read(url: string): Promise<Uint8Array>;
  /** Starts a worker; `undefined` if the platform has no workers. */
  startWorker: StartWorker | undefined;
}

/** Data that the build records about the providers' files. */
interface Own {
  /** The files' hashes, by provider and file name. */
  INTEGRITY: Record<string, Record<string, string>>;
  /** The URLs of the files in the package, by provider and file name. */
  FILES: Record<string, Record<string, () => string>>;
}

/** Creates a sandbox on the backend that the options select. */
export async function createWith(platform: Platform, options: SandboxOptions): Promise<Sandbox> {
  const { language, backend, policy, tools, progress, component } = checked(options);
  const host: Host = {
    answer: (index, parameters, signal) => {
      const tool = tools[index];
      return isAnswering(tool) ? answer(tool, parameters, signal) : Promise.resolve(unknownTool(index));
    },
    answerNow: (index, parameters) => {
      const tool = tools[index];
      return isAnswering(tool) ? answerNow(tool, parameters) : unknownTool(index);
    },
    progress: (text) => progress?.(text),
  };
  if (backend === 'unsafe-native' || backend === 'daemon') {
    const open = backend === 'daemon' ? platform.openDaemon : platform.openUnsafe;
    if (!open) throw errorOf('UnsupportedError', `backend: "${backend}" is not available on this platform; use backend: "wasm"`);
    return new Sandbox(backend, await open(language, policy, host));
  }
  const waits = policy.tools.some((tool) => tool.waits);
  if (backend === 'auto' && !component.provider && !waits) {
    // If no daemon answers, or the daemon does not support the options, this process opens the sandbox or reports the
    // reason. A daemon runs a suspended script again to read its calls, so it is not used with tools whose calls wait.
    const daemon = await platform.openDaemon?.(language, policy, host).catch(() => undefined);
    if (daemon) return new Sandbox('daemon', daemon);
  }
  if (backend !== 'component' && !component.provider) {
    const native = platform.openNative?.(language, policy, host) ?? new Error('this platform is not supported');
    if (!(native instanceof Error)) return new Sandbox('native', await native);
    if (backend === 'native') {
      throw errorOf('UnavailableError', `the native engine is unavailable: ${native.message}; use backend: "component"`, native);
    }
  }
  refuse(policy);
  return new Sandbox('component', await openPlatform(platform, language, policy, host, component));
}

async function openPlatform(platform: Platform, language: string, policy: Policy, host: Host, options: ComponentOptions): Promise<Backend> {
  const answerTool = (tool: number, parameters: string) => host.answerNow(tool, parameters);
  if (options.provider) {
    const { component, compiled } = options.provider;
    const provider = compiledProvider(component, (name) => compiled[name]);
    return direct(await openComponent({ provider, language, policy, answer: answerTool }));
  }
  const name = `glovebox-${language}`;
  const { INTEGRITY, FILES } = await platform.own();
  const isOwn = options.urls.length === 0;
  const files = FILES[name];
  if (isOwn && !files) {
    const names = Object.keys(FILES).join(', ');
    throw errorOf('PolicyError', `language: the package has no component \`${name}\`; it has ${names}; set indexURL for another component`);
  }
  const places: Place[] = isOwn
    ? [{ name: 'the package', url: (file) => fileUrl(files ?? {}, file) }]
    : options.urls.map((url) => ({ name: url, url: (file) => new URL(file, url).href }));
  const integrity = options.integrity ?? (isOwn ? undefined : INTEGRITY[name]);
  const parts = await loadParts({ name, places, isOwn, integrity: integrity || undefined, read: platform.read });
  const start = platform.startWorker;
  // A component blocks until a tool answers, and a worker can only block on shared memory.
  const canWait = policy.tools.length === 0 || typeof SharedArrayBuffer !== 'undefined';
  if (options.worker && !(start && canWait)) {
    const headers = 'the headers Cross-Origin-Opener-Policy and Cross-Origin-Embedder-Policy';
    const why = start
      ? `tools in a worker require shared memory; send ${headers} with the page, or remove worker`
      : 'this platform has no workers; remove worker';
    throw errorOf('UnsupportedError', `worker: ${why}`);
  }
  if (start && canWait && options.worker !== false) {
    return openInWorker({ parts, language, policy, host, start, terminateAfterMs: options.terminateAfterMs });
  }
  return direct(await openComponent({ provider: await providerOfParts(parts), language, policy, answer: answerTool }));
}

function unknownTool(index: number): Answer {
  return ['failed', `unknown tool number \`${index}\`; call a registered tool`];
}

function fileUrl(files: Record<string, () => string>, file: string): string {
  const url = files[file];
  if (!url) throw new Error(`the package does not contain \`${file}\``);
  return url();
}
