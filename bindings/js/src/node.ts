/// <reference types="node" />
/**
 * Runs untrusted Python and JavaScript in WebAssembly with enforced limits. The native engine starts a fresh
 * interpreter in well under a millisecond. Platforms without an engine run a component in a worker.
 */
import { readFile } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { type Platform, createWith } from './create.ts';
import type { StartWorker, WorkerMessage } from './component/messages.ts';
import { openDaemon } from './daemon/connect.ts';
import { openUnsafe } from './unsafe/open.ts';
import { openNative } from './native/backend.ts';
import { findNative } from './native/find.ts';
import type { SandboxOptions } from './options.ts';
import type { Sandbox } from './sandbox.ts';

export * from './api.ts';

/** The extension of modules: `ts` in tests, which run the sources without a build. */
const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';

const startWorker: StartWorker = (onMessage, broken) => {
  // The worker must not inherit flags of this process, such as `--input-type`.
  const worker = new Worker(new URL(`./component/node-worker.${extension}`, import.meta.url), { execArgv: [] });
  worker.on('message', (data: WorkerMessage) => onMessage(data));
  worker.on('error', broken);
  worker.unref();
  return {
    post: (message) => worker.postMessage(message),
    terminate: () => void worker.terminate(),
    hold: (isHeld) => (isHeld ? worker.ref() : worker.unref()),
  };
};

const platform: Platform = {
  openNative(language, policy, host) {
    const native = findNative();
    return native instanceof Error ? native : openNative(native, language, policy, host);
  },
  openDaemon,
  openUnsafe,
  own: () => import('./own.ts'),
  async read(url) {
    if (url.startsWith('file:')) return readFile(new URL(url));
    const response = await fetch(url);
    if (!response.ok) throw new Error(`HTTP status ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  },
  startWorker,
};

/**
 * Creates a sandbox. The first call for a language prepares its interpreter, which can take seconds; later calls take
 * milliseconds.
 */
export function createSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  return createWith(platform, options);
}
