// Numbers as people read them.

const SCALE = ['', 'k', 'M', 'G', 'T', 'P', 'E'];

/** 1,234,567 is 1.23 M. */
export function count(number: number): string {
  let [value, at] = [number, 0];
  while (value >= 999.5 && at < SCALE.length - 1) [value, at] = [value / 1000, at + 1];
  return `${at === 0 ? value : short(value)}${at === 0 ? '' : ` ${SCALE[at]}`}`;
}

/** Bytes, in powers of 1,024. */
export function bytes(number: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, at] = [number, 0];
  while (value >= 1023.5 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return `${at === 0 ? value : short(value)} ${units[at]}`;
}

/** Milliseconds. */
export function duration(ms: number): string {
  if (ms < 1000) return `${short(ms)} ms`;
  if (ms < 120_000) return `${short(ms / 1000)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

/** Three digits that say something. */
function short(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

/** `3 files`, `1 file`. */
export function plural(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}
