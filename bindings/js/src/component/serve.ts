// Serves a component in a worker. Requests and results are messages, handled one at a time.
import { type FailureClass, GloveboxError, SessionError } from '../errors.ts';
import type { Answer } from '../tools.ts';
import { ComponentBackend, GuestSession, openComponent } from './backend.ts';
import { providerOfParts } from './load.ts';
import { type Ask, type Begin, KIND_MARKS, type Named, type Shared, type WorkerMessage } from './messages.ts';

/** The message port of a worker. */
export interface Port {
  postMessage(message: unknown): void;
  onmessage: ((event: { data: unknown }) => void) | null;
}

let port: Port;

const send = (message: WorkerMessage): void => port.postMessage(message);
const sessions = new Map<number, GuestSession>();
let count = 0;
let backend: Promise<ComponentBackend> | undefined;
/** A nonzero value cancels the current execution. The word is in the memory shared with the caller, if there is any. */
let cancelWord: Int32Array = new Int32Array(1);
let isShared = false;

export function listen(to: Port): void {
  port = to;
  port.onmessage = ({ data }) => receive(data);
}

function receive(data: unknown): void {
  if (!backend) {
    backend = begin(data as Begin);
    backend.then(
      ({ language, runtimeName, version }) => send({ kind: 'done', id: 0, value: { language, runtimeName, version }, ended: undefined }),
      (error) => fail(0, error, undefined),
    );
    return;
  }
  void serve(data as Ask);
}

async function begin({ parts, language, policy, shared, toolTimeoutMs }: Begin): Promise<ComponentBackend> {
  const provider = await providerOfParts(parts);
  if (shared) [cancelWord, isShared] = [shared.words.subarray(0, 1), true];
  const answer = (tool: number, parameters: string): Answer =>
    shared ? ask(shared, toolTimeoutMs, tool, parameters) : ['failed', 'tools in a worker need shared memory'];
  return openComponent({ provider, language, policy, answer, cancelWord });
}

/**
 * Requests a tool's answer from the caller's thread, and blocks until it arrives, because a component calls its tools
 * synchronously.
 */
function ask({ words, reply }: Shared, timeoutMs: number, tool: number, parameters: string): Answer {
  Atomics.store(words, 1, 0);
  send({ kind: 'call', tool, parameters });
  const pieces: Uint8Array[] = [];
  const end = performance.now() + timeoutMs;
  for (;;) {
    // A cancellation also ends this wait.
    while (Atomics.load(words, 1) === 0) {
      const left = end - performance.now();
      if (left <= 0 || Atomics.load(words, 0) !== 0) {
        send({ kind: 'dropped' });
        return ['failed', left <= 0 ? `the call took longer than ${timeoutMs} ms (\`limits.toolTimeoutMs\`)` : 'the execution was cancelled'];
      }
      Atomics.wait(words, 1, 0, Math.min(left, 100));
    }
    const length = Math.abs(Atomics.load(words, 1)) - 1;
    // A negative length means that more chunks follow.
    const isLast = Atomics.load(words, 1) > 0;
    pieces.push(reply.slice(0, length));
    if (isLast) break;
    Atomics.store(words, 1, 0);
    send({ kind: 'more' });
  }
  const decoder = new TextDecoder();
  const text = pieces.map((piece) => decoder.decode(piece, { stream: true })).join('') + decoder.decode();
  const kind = text.startsWith(KIND_MARKS.returned) ? 'returned' : text.startsWith(KIND_MARKS.denied) ? 'denied' : 'failed';
  return [kind, text.slice(1)];
}

async function serve({ id, session: number, method, values, isCancelled }: Ask): Promise<void> {
  if (!isShared) cancelWord[0] = Number(isCancelled ?? false);
  const session = number === undefined ? undefined : sessions.get(number);
  try {
    if (number !== undefined && !session) throw new SessionError('the session is closed; open a new one');
    const target = (session ?? (await backend)) as unknown as Record<string, (...values: unknown[]) => Promise<unknown>>;
    const value = await target[method]?.(...values);
    if (session && method === 'close') sessions.delete(number ?? 0);
    send({ kind: 'done', id, value: value instanceof GuestSession ? named(value) : value, ended: session?.ended });
  } catch (error) {
    fail(id, error, session?.ended);
  }
}

function named(session: GuestSession): Named {
  count += 1;
  sessions.set(count, session);
  return { session: count, id: session.id };
}

function fail(id: number, error: unknown, ended: string | undefined): void {
  const name = error instanceof GloveboxError ? (error.name as FailureClass) : undefined;
  send({ kind: 'failed', id, class: name, message: error instanceof Error ? error.message : String(error), ended });
}
