import type { Imports } from './provider.ts';

const NANOSECONDS_PER_MILLISECOND = 1_000_000n;
const NANOSECONDS_PER_SECOND = 1_000_000_000n;
/** A wait is cut into pieces that the browser can wait for. */
const LONGEST_WAIT_MILLISECONDS = 0x7fff_ffff;

const now = (): bigint => BigInt(Math.floor(performance.now() * 1e6));

/** Waits without giving up the thread: in a page, where that is not allowed, by looking at the clock. */
function sleep(milliseconds: number): void {
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  } catch {
    const end = performance.now() + milliseconds;
    while (performance.now() < end);
  }
}

class Pollable {
  readonly #until: bigint;

  constructor(until: bigint) {
    this.#until = until;
  }

  ready(): boolean {
    return now() >= this.#until;
  }

  block(): void {
    for (let left = this.#until - now(); left > 0n; left = this.#until - now()) {
      sleep(Math.min(Number(left / NANOSECONDS_PER_MILLISECOND) + 1, LONGEST_WAIT_MILLISECONDS));
    }
  }
}

/** What the open providers import of WASI: clocks, and a way to wait. Without a package of Node.js, so that it runs in browsers too. */
export const clocks: Imports = {
  'wasi:clocks/monotonic-clock': {
    now,
    resolution: () => NANOSECONDS_PER_MILLISECOND,
    subscribeDuration: (duration: bigint) => new Pollable(now() + duration),
    subscribeInstant: (instant: bigint) => new Pollable(instant),
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
      while (pollables.length > 0 && ready().length === 0) sleep(1);
      return ready();
    },
  },
};
