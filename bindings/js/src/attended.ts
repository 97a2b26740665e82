// An execution with its listeners and its signals.
import type { Attendant } from './backend.ts';
import type { ExecuteOptions } from './options.ts';
import type { Run } from './run.ts';

/** Runs an execution with its listeners and its signal. */
export async function attended(
  cancelled: AbortSignal,
  options: ExecuteOptions,
  execute: (attendant: Attendant) => Promise<Run>,
): Promise<Run> {
  const { signal, onStdout, onStderr } = options;
  signal?.throwIfAborted();
  const stop = new AbortController();
  let thrown: { error: unknown } | undefined;
  const abort = (): void => stop.abort();
  // Each stream is decoded for itself: a character may come in two pieces.
  const streams = [onStdout, onStderr].map((listener) => ({ listener, decoder: new TextDecoder() }));
  const hear = (isStderr: boolean, bytes: Uint8Array): void => {
    const { listener, decoder } = streams[Number(isStderr)] ?? {};
    if (!listener || !decoder || thrown) return;
    try {
      const text = decoder.decode(bytes, { stream: true });
      if (text) listener(text);
    } catch (error) {
      thrown = { error };
      abort();
    }
  };
  for (const each of [signal, cancelled]) each?.addEventListener('abort', abort);
  if (cancelled.aborted) abort();
  try {
    const run = await execute({ signal: stop.signal, output: onStdout || onStderr ? hear : undefined });
    if (thrown) throw thrown.error;
    // It may have ended by itself just before.
    if (run.outcome.kind === 'cancelled' || run.interrupted) signal?.throwIfAborted();
    return run;
  } finally {
    for (const each of [signal, cancelled]) each?.removeEventListener('abort', abort);
  }
}
