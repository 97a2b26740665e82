// The resource use of a run relative to its limits.
import type { Allowed, Execution } from '../backend/backend.ts';
import { h } from './dom.ts';
import { bytes, count, duration } from './format.ts';

/** Meters for time, fuel and memory. */
export class Usage {
  readonly #root: HTMLElement;

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  /** Shows the limits. */
  allow(allowed: Allowed): void {
    this.#show(allowed, undefined);
  }

  /** Shows the resource use of a run. */
  used(allowed: Allowed, execution: Execution): void {
    this.#show(allowed, execution);
  }

  #show(allowed: Allowed, execution: Execution | undefined): void {
    this.#root.replaceChildren(
      meter('Time', execution?.duration_ms, allowed.timeoutMs, duration),
      meter('Fuel', execution?.fuel_consumed, allowed.fuel, count),
      meter('Memory', execution?.memory_used_bytes, allowed.memoryBytes, bytes),
    );
  }
}

function meter(name: string, used: number | undefined, most: number, format: (value: number) => string): HTMLElement {
  const share = used === undefined ? 0 : Math.min(1, used / most);
  const bar = h('span', { class: 'bar' });
  bar.style.inlineSize = `${used === undefined ? 0 : Math.max(1.5, share * 100)}%`;
  const text = used === undefined ? `up to ${format(most)}` : `${format(used)} of ${format(most)}`;
  const track = h('span', { class: 'track', role: 'meter', 'aria-label': name, 'aria-valuemin': 0, 'aria-valuemax': most, 'aria-valuenow': used ?? 0, 'aria-valuetext': text }, bar);
  if (share > 0.8) track.dataset['high'] = '';
  return h('div', { class: 'meter' }, h('span', { class: 'name' }, name), h('span', { class: 'amount' }, text), track);
}
