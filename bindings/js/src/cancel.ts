// How executions are stopped: what an `AbortController` is, without its cost, which is that of a short script.

/** Stops one execution. Once cancelled it stays so. */
export class Cancel {
  isCancelled = false;
  #stop: (() => void) | undefined;

  /** Whom to tell: whoever executes now. One that comes late is told at once. */
  onCancel(stop: (() => void) | undefined): void {
    this.#stop = stop;
    if (this.isCancelled) stop?.();
  }

  cancel(): void {
    if (this.isCancelled) return;
    this.isCancelled = true;
    this.#stop?.();
  }
}
