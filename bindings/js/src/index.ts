/**
 * Runs untrusted Python and JavaScript in WebAssembly with enforced limits: in browsers, on edge runtimes, and on any
 * other platform that supports WebAssembly exceptions. Node.js uses `node.ts`, which adds the engine.
 */
import { type Platform, createWith } from './create.ts';
import type { StartWorker, WorkerMessage } from './component/messages.ts';
import type { SandboxOptions } from './options.ts';
import type { Sandbox } from './sandbox.ts';

export * from './api.ts';

const startWorker: StartWorker = (onMessage, broken) => {
  // Bundlers only recognize workers in this form.
  const worker = new Worker(new URL('./component/worker.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => onMessage(data as WorkerMessage);
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

/** Creates a sandbox. The first call for a language takes a second or more to load the interpreter. */
export function createSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  return createWith(platform, options);
}
