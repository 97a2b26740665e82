import type { Imports } from './provider.ts';

const NANOSECONDS_PER_MILLISECOND = 1_000_000n;
const NANOSECONDS_PER_SECOND = 1_000_000_000n;
/** A wait is cut into pieces that the browser can wait for. */
const LONGEST_WAIT_MILLISECONDS = 0x7fff_ffff;

/** Set in the time by which a provider is told to cancel what it executes. */
const CANCELLED = 1n << 63n;

const now = (): bigint => BigInt(Math.floor(performance.now() * 1e6));

/** Waits without giving up the thread, until `word` is not 0: in a page, where that is not allowed, by looking at the clock. */
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
    // Whoever is cancelled already waits as long as it says: it has a little time to end in.
    const isCancelled = Atomics.load(this.#word, 0) !== 0;
    const word = isCancelled ? new Int32Array(new ArrayBuffer(4)) : this.#word;
    for (let left = this.#until - now(); left > 0n; left = this.#until - now()) {
      sleep(word, Math.min(Number(left / NANOSECONDS_PER_MILLISECOND) + 1, LONGEST_WAIT_MILLISECONDS));
      if (!isCancelled && Atomics.load(this.#word, 0) !== 0) break;
    }
  }
}

/** A word of memory, by which another thread can cancel what is executed: shared where that is possible. */
export function cancelWord(): Int32Array {
  return new Int32Array(typeof SharedArrayBuffer === 'undefined' ? new ArrayBuffer(4) : new SharedArrayBuffer(4));
}

/**
 * What the open providers import of WASI: clocks, and a way to wait. Without a package of Node.js, so that it runs in browsers too. While
 * `word` is not 0 the provider is told to cancel what it executes.
 */
export function clocks(word: Int32Array): Imports {
  const told = (): bigint => (Atomics.load(word, 0) === 0 ? now() : now() | CANCELLED);
  return {
    'wasi:clocks/monotonic-clock': {
      now: told,
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
        // Only the clock is waited for: the earliest is the first to be ready.
        while (pollables.length > 0 && ready().length === 0) sleep(word, 1);
        return ready();
      },
    },
  };
}
