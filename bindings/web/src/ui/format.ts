// Formats numbers for display.

const SCALE = ['', 'k', 'M', 'G', 'T', 'P', 'E'];

/** Formats a count: 1,234,567 becomes 1.23 M. */
export function count(number: number): string {
  let [value, at] = [number, 0];
  while (value >= 999.5 && at < SCALE.length - 1) [value, at] = [value / 1000, at + 1];
  return `${at === 0 ? value : short(value)}${at === 0 ? '' : ` ${SCALE[at]}`}`;
}

/** Formats a number of bytes, in powers of 1,024. */
export function bytes(number: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, at] = [number, 0];
  while (value >= 1023.5 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return `${at === 0 ? value : short(value)} ${units[at]}`;
}

/** Formats a duration in milliseconds. */
export function duration(ms: number): string {
  if (ms < 1000) return `${short(ms)} ms`;
  if (ms < 120_000) return `${short(ms / 1000)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

/** Formats a number with three significant digits. */
function short(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

/** Formats a number with its noun: `3 files`, `1 file`. */
export function plural(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}
