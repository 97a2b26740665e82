// What the caller's thread and a worker say to each other.
import type { Policy } from '../backend.ts';
import type { FailureClass } from '../errors.ts';
import type { Parts } from './load.ts';

/** What the worker shares with its caller. */
export interface Shared {
  /** 0: not 0 cancels what is executed. 1: how many bytes of a tool's answer are in `reply`, plus one; 0 while there is none. */
  words: Int32Array;
  /** A piece of a tool's answer, as UTF-8: its first byte says whether it is a result. */
  reply: Uint8Array;
}

/** The first message: what the worker is to be. */
export interface Begin {
  parts: Parts;
  language: string;
  policy: Policy;
  shared: Shared | undefined;
  /** How long a tool may take, in milliseconds. */
  toolTimeoutMs: number;
}

/** Something that is asked of the sandbox or, with a number, of a session. */
export interface Ask {
  id: number;
  session: number | undefined;
  method: string;
  values: unknown[];
  /** Whether it is cancelled already. */
  isCancelled?: boolean;
}

/** What the worker says. */
export type Said =
  | { kind: 'done'; id: number; value: unknown; ended: string | undefined }
  | { kind: 'failed'; id: number; class: FailureClass | undefined; message: string; ended: string | undefined }
  /** A script calls a tool: the worker waits for the answer. */
  | { kind: 'call'; tool: number; parameters: string }
  /** A piece of the answer was taken, and there is more. */
  | { kind: 'more' }
  /** Nobody waits for the answer any longer. */
  | { kind: 'dropped' };

/** A session as the worker names it. */
export interface Named {
  session: number;
  id: string;
}

/** A worker, of Node.js or of the Web. */
export interface WorkerHandle {
  post(message: unknown): void;
  terminate(): void;
  /** Whether the process is to go on for its sake. */
  hold(isHeld: boolean): void;
}

/** Starts one. */
export type StartWorker = (heard: (said: Said) => void, broken: (error: unknown) => void) => WorkerHandle;
