/**
 * Runs untrusted Python and JavaScript in WebAssembly, with limits that hold: in browsers, at the edge, and wherever else WebAssembly with
 * exceptions is. In Node.js this is `node.ts`, which has the engine too.
 */
import { type Platform, createWith } from './create.ts';
import type { Said, StartWorker } from './component/messages.ts';
import type { SandboxOptions } from './options.ts';
import type { Sandbox } from './sandbox.ts';

export * from './api.ts';

const startWorker: StartWorker = (heard, broken) => {
  // Bundlers look for exactly this.
  const worker = new Worker(new URL('./component/worker.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => heard(data as Said);
  worker.onerror = (event) => broken(new Error(event.message || 'the worker cannot be loaded'));
  return { post: (message) => worker.postMessage(message), terminate: () => worker.terminate(), hold: () => undefined };
};

const platform: Platform = {
  own: () => import('./own.ts'),
  async read(url) {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`HTTP status ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  },
  startWorker: typeof Worker === 'undefined' ? undefined : startWorker,
};

/** Makes a sandbox. It takes a second or more to load the interpreter the first time. */
export function createSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  return createWith(platform, options);
}
