// Parses and serializes JSON without losing digits of integers. `JSON.parse` rounds integers beyond the safe range of
// numbers. `JSON.stringify` rejects bigints, and writes large numbers with the fewest digits that identify them:
// 18446744073709552000 for 2^64.

/**
 * Maximum number of digits of a parsed integer, the same as in Python. The limit is needed because the conversion time
 * grows faster than the number of digits.
 */
export const MAX_DIGITS = 4_300;

/**
 * Matches a part of every integer beyond the safe range, and of some other numbers. The expressions have no unbounded
 * repetition, which could exhaust the JavaScript engine's stack.
 */
const LONG = /\d{16}/;
const NUMBER_CHARACTER = /[-+.\deE]/;

/** Parses JSON text. Integers outside ±(2^53 − 1) become bigints, and all other numbers become numbers. */
export function parseJson(text: string): any {
  const rounded: unknown = JSON.parse(text);
  if (!LONG.test(text)) return rounded;
  const quoted = quote(text);
  return quoted === text ? rounded : restore(rounded, JSON.parse(quoted));
}

/** Encloses the integers beyond the safe range in quotation marks. The text must be valid JSON. */
function quote(text: string): string {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const found = text.indexOf('"', at);
    const start = found < 0 ? text.length : found;
    pieces.push(quoteNumbers(text.slice(at, start)));
    at = found < 0 ? start : endOfString(text, start);
    pieces.push(text.slice(start, at));
  }
  return pieces.join('');
}

/** Like `quote`, for a part of the text without strings. */
function quoteNumbers(part: string): string {
  const isNumber = (at: number): boolean => NUMBER_CHARACTER.test(part.charAt(at));
  const long = new RegExp(LONG, 'g');
  let quoted = '';
  let copied = 0;
  for (let found = long.exec(part); found; found = long.exec(part)) {
    let start = found.index;
    let end = long.lastIndex;
    while (isNumber(start - 1)) start -= 1;
    while (isNumber(end)) end += 1;
    long.lastIndex = end;
    const token = part.slice(start, end);
    if (/[.eE]/.test(token) || Number.isSafeInteger(Number(token))) continue;
    quoted += `${part.slice(copied, start)}"${token}"`;
    copied = end;
  }
  return quoted + part.slice(copied);
}

/** Returns the position after the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; ; at += 1) {
    at = text.indexOf('"', at);
    let backslashes = 0;
    while (text[at - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return at + 1;
  }
}

/**
 * Replaces the rounded integers in a value with bigints. `quoted` is the same value, with a string for each rounded
 * integer. Does not recurse, because `JSON.parse` accepts values of any depth.
 */
function restore(rounded: unknown, quoted: unknown): unknown {
  const root: [unknown] = [rounded];
  const pairs: [any, any][] = [[root, [quoted]]];
  for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
    const [target, source] = pair;
    // Assigns only existing keys, so that `__proto__` does not change a prototype.
    for (const key of Array.isArray(target) ? target.keys() : Object.keys(target)) {
      const value: unknown = target[key];
      if (typeof value === 'number' && typeof source[key] === 'string') target[key] = integerOf(source[key]);
      else if (typeof value === 'object' && value !== null) pairs.push([value, source[key]]);
    }
  }
  return root[0];
}

function integerOf(digits: string): bigint {
  const length = digits.replace('-', '').length;
  if (length > MAX_DIGITS) throw new RangeError(`an integer has ${length} digits; the maximum is ${MAX_DIGITS}`);
  return BigInt(digits);
}

/**
 * Serializes a value like `JSON.stringify`, except that integers below 10²¹ and all bigints keep all digits. A `toJSON`
 * of `BigInt.prototype` applies only to bigints that getters return.
 */
export function stringifyJson(value: unknown): string {
  return stringify(value, (integer) => BigInt(integer).toString());
}

/** Serializes a value that `parseJson` returned. Parsing the text again returns the same numbers and bigints. */
export function stringifyParsedJson(value: unknown): string {
  return stringify(value, (integer) => integer.toExponential());
}

/**
 * Serializes a value. `textOf` converts the integers that are numbers outside the safe range. Getters and `toJSON` run
 * only once, because they can have side effects.
 */
function stringify(value: unknown, textOf: (integer: number) => string): string {
  const hasToJson = 'toJSON' in BigInt.prototype;
  let mark: string | undefined;
  const marked = (digits: string): string => {
    // The mark is new and random, so no string in the value contains it.
    mark ??= crypto.getRandomValues(new Uint32Array(4)).join('-');
    return `${mark}:${digits}`;
  };
  const text = JSON.stringify(value, function (this: object, key: string, given: unknown) {
    let number = given;
    if (hasToJson) {
      const own: unknown = Object.getOwnPropertyDescriptor(this, key)?.value;
      if (typeof own === 'bigint') number = own;
    }
    if (typeof number === 'bigint') return marked(number.toString());
    if (typeof number !== 'number' || !Number.isInteger(number) || Number.isSafeInteger(number) || Math.abs(number) >= 1e21) return given;
    return marked(textOf(number));
  }) as string | undefined;
  return (mark ? text?.replace(new RegExp(`"${mark}:([^"]+)"`, 'g'), '$1') : text) as string;
}
