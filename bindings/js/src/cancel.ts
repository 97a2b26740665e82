// Cancellation of executions. `Cancel` replaces `AbortController`, whose creation takes as long as a short script.

/** A handle that cancels one execution. A cancellation is permanent. */
export class Cancel {
  isCancelled = false;
  #stop: (() => void) | undefined;

  /**
   * Sets the callback that stops the current execution. Calls it immediately if the execution is already cancelled.
   */
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
