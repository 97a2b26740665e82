import type { Imports } from './provider.ts';

const NANOSECONDS_PER_MILLISECOND = 1_000_000n;
const NANOSECONDS_PER_SECOND = 1_000_000_000n;
/** The longest single wait that browsers support. Longer waits are split. */
const LONGEST_WAIT_MILLISECONDS = 0x7fff_ffff;

/** The bit in the reported time that makes a provider cancel the current execution. */
const CANCELLED = 1n << 63n;

const now = (): bigint => BigInt(Math.floor(performance.now() * 1e6));

/**
 * Blocks the thread until `word` is nonzero or the time has elapsed. Busy-waits in a page, where `Atomics.wait` is not
 * allowed.
 */
function sleep(word: Int32Array, milliseconds: number): void {
  try {
    Atomics.wait(word, 0, 0, milliseconds);
  } catch {
    const end = performance.now() + milliseconds;
    while (performance.now() < end && Atomics.load(word, 0) === 0);
  }
}

class Pollable {
  readonly #until: bigint;
  readonly #word: Int32Array;

  constructor(until: bigint, word: Int32Array) {
    this.#until = until;
    this.#word = word;
  }

  ready(): boolean {
    return now() >= this.#until;
  }

  block(): void {
    // After a cancellation, the script has a short time to clean up. Its waits then ignore the word and run in full.
    const isCancelled = Atomics.load(this.#word, 0) !== 0;
    const word = isCancelled ? new Int32Array(new ArrayBuffer(4)) : this.#word;
    for (let left = this.#until - now(); left > 0n; left = this.#until - now()) {
      sleep(word, Math.min(Number(left / NANOSECONDS_PER_MILLISECOND) + 1, LONGEST_WAIT_MILLISECONDS));
      if (!isCancelled && Atomics.load(this.#word, 0) !== 0) break;
    }
  }
}

/**
 * Creates the word through which another thread can cancel an execution. Uses shared memory if the platform has it.
 */
export function cancelWord(): Int32Array {
  return new Int32Array(typeof SharedArrayBuffer === 'undefined' ? new ArrayBuffer(4) : new SharedArrayBuffer(4));
}

/**
 * The WASI imports of the open providers: clocks and polling. The code uses no Node.js package, so it also runs in
 * browsers. While `word` is nonzero, the clock tells the provider to cancel the current execution.
 */
export function clocks(word: Int32Array): Imports {
  const nowOrCancelled = (): bigint => (Atomics.load(word, 0) === 0 ? now() : now() | CANCELLED);
  return {
    'wasi:clocks/monotonic-clock': {
      now: nowOrCancelled,
      resolution: () => NANOSECONDS_PER_MILLISECOND,
      subscribeDuration: (duration: bigint) => new Pollable(now() + duration, word),
      subscribeInstant: (instant: bigint) => new Pollable(instant & ~CANCELLED, word),
    },
    'wasi:clocks/wall-clock': {
      now: () => {
        const milliseconds = BigInt(Date.now());
        const nanoseconds = milliseconds * NANOSECONDS_PER_MILLISECOND;
        return { seconds: nanoseconds / NANOSECONDS_PER_SECOND, nanoseconds: Number(nanoseconds % NANOSECONDS_PER_SECOND) };
      },
      resolution: () => ({ seconds: 0n, nanoseconds: Number(NANOSECONDS_PER_MILLISECOND) }),
    },
    'wasi:io/poll': {
      Pollable,
      poll: (pollables: Pollable[]) => {
        const ready = (): Uint32Array => Uint32Array.from(pollables.flatMap((pollable, index) => (pollable.ready() ? [index] : [])));
        // All pollables are timers, so polling once per millisecond is enough.
        while (pollables.length > 0 && ready().length === 0) sleep(word, 1);
        return ready();
      },
    },
  };
}
