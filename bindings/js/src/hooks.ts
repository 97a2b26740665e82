// Listeners and abort signals of executions.
import type { ExecutionHooks } from './backend.ts';
import type { Cancel } from './cancel.ts';
import type { ListenOptions } from './options.ts';
import { Run } from './run.ts';
import type { WaitingRun } from './waiting.ts';

/**
 * Runs an execution with its listeners and abort signal. Every execution calls this function, so unused options must
 * cost no time.
 */
export async function runWithHooks<Result extends Run | WaitingRun>(
  cancel: Cancel,
  options: ListenOptions,
  execute: (hooks: ExecutionHooks) => Promise<Result>,
): Promise<Result> {
  const { signal, onStdout, onStderr } = options;
  signal?.throwIfAborted();
  const abort = (): void => cancel.cancel();
  const listeners = onStdout || onStderr ? new Listeners([onStdout, onStderr], abort) : undefined;
  signal?.addEventListener('abort', abort);
  try {
    const run = await execute({ cancel, output: listeners && ((isStderr, bytes) => listeners.deliver(isStderr, bytes)) });
    if (listeners?.thrown) throw listeners.thrown.error;
    // The execution may have finished just before the abort. Its result is then returned.
    if (signal?.aborted && (!(run instanceof Run) || run.outcome.kind === 'cancelled' || run.interrupted)) throw signal.reason;
    return run;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

class Listeners {
  readonly #streams: { listener: ((text: string) => void) | undefined; decoder: TextDecoder }[];
  readonly #abort: () => void;
  /** The error that a listener has thrown. It ends the execution, and no listener is called again. */
  thrown: { error: unknown } | undefined;

  constructor(listeners: (((text: string) => void) | undefined)[], abort: () => void) {
    // Each stream has its own decoder, because a character can be split between two chunks.
    this.#streams = listeners.map((listener) => ({ listener, decoder: new TextDecoder() }));
    this.#abort = abort;
  }

  deliver(isStderr: boolean, bytes: Uint8Array): void {
    const { listener, decoder } = this.#streams[Number(isStderr)] ?? {};
    if (!listener || !decoder || this.thrown) return;
    try {
      const text = decoder.decode(bytes, { stream: true });
      if (text) listener(text);
    } catch (error) {
      this.thrown = { error };
      this.#abort();
    }
  }
}
