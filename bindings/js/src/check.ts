// Argument checks. A wrong type throws a `TypeError` that names the argument. A number out of range, or text that UTF-8
// cannot encode, throws a `RangeError`. A value that JSON cannot represent throws a `TypeError`.
import { stringifyJson } from './json.ts';

interface Types {
  string: string;
  number: number;
  boolean: boolean;
  function: (...values: never[]) => unknown;
}

function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value !== 'object') return typeof value;
  return value.constructor?.name ?? 'object';
}

/** Returns the error for an argument of the wrong type. */
export function wrong(name: string, wanted: string, value: unknown): TypeError {
  return new TypeError(`${name} must be ${wanted}, not ${typeName(value)}`);
}

/** Checks the type of a value. Also rejects strings with lone surrogates. */
export function of<Type extends keyof Types>(name: string, type: Type, value: unknown): Types[Type] {
  if (typeof value !== type) throw wrong(name, `a ${type}`, value);
  if (typeof value === 'string' && !value.isWellFormed()) throw new RangeError(`${name} contains a lone surrogate, which UTF-8 cannot encode`);
  return value as Types[Type];
}

/** Like `of`, but also accepts `undefined`. */
export function optional<Type extends keyof Types>(name: string, type: Type, value: unknown): Types[Type] | undefined {
  return value === undefined ? undefined : of(name, type, value);
}

export const MAX_NARROW = 2n ** 32n - 1n;

/** Checks that a value is a non-negative integer, as a number or a bigint, of at most `max`. */
export function whole(name: string, value: unknown, max: bigint = 2n ** 64n - 1n): bigint {
  if (typeof value !== 'number' && typeof value !== 'bigint') throw wrong(name, 'a number or a bigint', value);
  const number = typeof value === 'bigint' || Number.isInteger(value) ? BigInt(value) : -1n;
  if (number < 0n || number > max) throw new RangeError(`${name} must be a whole number from 0 to ${max}, not ${value}`);
  return number;
}

/** Checks that a value is one of the choices. */
export function oneOf<const Choice extends string>(name: string, choices: readonly Choice[], value: unknown): Choice {
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw new TypeError(`${name} must be one of ${choices.map((each) => `"${each}"`).join(', ')}, not ${shown(value)}`);
  return found;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : typeName(value);
}

/** Converts bytes or text to bytes; text is encoded as UTF-8. */
export function contents(name: string, value: unknown): Uint8Array {
  if (typeof value === 'string') return new TextEncoder().encode(of(name, 'string', value));
  if (value instanceof Uint8Array) return value;
  throw wrong(name, 'a string or a Uint8Array', value);
}

/** Checks that a value is a `Uint8Array`. */
export function bytes(name: string, value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw wrong(name, 'a Uint8Array', value);
}

/** Checks each entry of an object with `each`. Returns no entries for `undefined`. */
export function entries<Each>(name: string, value: unknown, each: (name: string, value: unknown) => Each): [string, Each][] {
  if (value === undefined) return [];
  const all = Object.entries(object(name, 'an object', value));
  return all.map(([key, one]) => [of(`a key of ${name}`, 'string', key), each(`${name}[${JSON.stringify(key)}]`, one)]);
}

/** Checks that an object has only known keys, so that misspelt options are not ignored. */
export function known(name: string, value: unknown, keys: readonly string[]): void {
  const unknown = Object.keys(object(name, 'an object', value)).find((key) => !keys.includes(key));
  if (unknown !== undefined) throw new TypeError(`${name}: unknown key \`${unknown}\`; use one of ${keys.join(', ')}`);
}

/** Checks each element of an array with `each`. Returns an empty array for `undefined`. */
export function list<Each>(name: string, value: unknown, each: (name: string, value: unknown) => Each): Each[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw wrong(name, 'an array', value);
  return value.map((one, index) => each(`${name}[${index}]`, one));
}

/** Checks that a value is an object and not an array. */
export function object(name: string, wanted: string, value: unknown): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(name, wanted, value);
  return value;
}

/**
 * Matches the escape of a lone surrogate. `JSON.stringify` escapes no other surrogates, and writes a backslash in the
 * text itself as two.
 */
const LONE_SURROGATE = /(?:^|[^\\])(?:\\\\)*\\ud/;

/** Serializes a value as JSON text. Integers keep all digits. */
export function json(name: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = stringifyJson(value);
  } catch (error) {
    throw new TypeError(`${name} must be a JSON value: ${error instanceof Error ? error.message : error}`);
  }
  if (text === undefined) throw wrong(name, 'a JSON value', value);
  if (LONE_SURROGATE.test(text)) throw new TypeError(`${name} must be a JSON value: UTF-8 cannot encode a lone surrogate`);
  return text;
}

/** Checks that a value is an `AbortSignal`. */
export function signal(name: string, value: unknown): AbortSignal | undefined {
  if (value !== undefined && !(value instanceof AbortSignal)) throw wrong(name, 'an AbortSignal', value);
  return value;
}
