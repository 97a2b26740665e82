// The messages between the caller's thread and a worker.
import type { Policy } from '../backend.ts';
import type { FailureClass } from '../errors.ts';
import type { Parts } from './load.ts';

/** The first character of a tool's answer, which encodes the outcome of the call. */
export const KIND_MARKS = { returned: '+', failed: '-', denied: '!' } as const;

/** The memory that a worker shares with its caller. */
export interface Shared {
  /**
   * Word 0: a nonzero value cancels the current execution. Word 1: the number of bytes of a tool's answer in `reply`,
   * plus one; 0 while no answer is available; negative if more chunks follow.
   */
  words: Int32Array;
  /** A chunk of a tool's answer in UTF-8. The first byte of the answer is one of `KIND_MARKS`. */
  reply: Uint8Array;
}

/** The first message, which configures the worker. */
export interface Begin {
  parts: Parts;
  language: string;
  policy: Policy;
  shared: Shared | undefined;
  /** Timeout of a tool call, in milliseconds. */
  toolTimeoutMs: number;
}

/** A request to the sandbox or, with a session number, to a session. */
export interface Ask {
  id: number;
  session: number | undefined;
  method: string;
  values: unknown[];
  /** True if the execution was cancelled before it was sent. */
  isCancelled?: boolean;
}

/** A message from the worker. */
export type WorkerMessage =
  | { kind: 'done'; id: number; value: unknown; ended: string | undefined }
  | { kind: 'failed'; id: number; class: FailureClass | undefined; message: string; ended: string | undefined }
  /** A script has called a tool, and the worker waits for the answer. */
  | { kind: 'call'; tool: number; parameters: string }
  /** The worker has read a chunk of the answer and waits for the next one. */
  | { kind: 'more' }
  /** The worker has stopped waiting for the answer. */
  | { kind: 'dropped' };

/** A session and its number in the worker. */
export interface Named {
  session: number;
  id: string;
}

/** A worker of Node.js or of the Web. */
export interface WorkerHandle {
  post(message: unknown): void;
  terminate(): void;
  /** Keeps the process alive while the worker is busy. */
  hold(isHeld: boolean): void;
}

/** Starts a worker with handlers for its messages and for its failure. */
export type StartWorker = (onMessage: (message: WorkerMessage) => void, broken: (error: unknown) => void) => WorkerHandle;
