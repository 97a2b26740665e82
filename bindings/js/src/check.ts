// Arguments of the wrong type are a `TypeError` that names them; numbers out of range, and text that has no UTF-8, a `RangeError`.

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

/** What to throw. */
export function wrong(name: string, wanted: string, value: unknown): TypeError {
  return new TypeError(`${name} must be ${wanted}, not ${typeName(value)}`);
}

/** A value of a type; text has no lone surrogates. */
export function of<Type extends keyof Types>(name: string, type: Type, value: unknown): Types[Type] {
  if (typeof value !== type) throw wrong(name, `a ${type}`, value);
  if (typeof value === 'string' && !value.isWellFormed()) throw new RangeError(`${name} has a lone surrogate, which UTF-8 has no form for`);
  return value as Types[Type];
}

/** The same, or `undefined`. */
export function optional<Type extends keyof Types>(name: string, type: Type, value: unknown): Types[Type] | undefined {
  return value === undefined ? undefined : of(name, type, value);
}

/** The most of a number of 32 bits. */
export const MAX_NARROW = 2n ** 32n - 1n;

/** A whole number that is not negative, as a number or a bigint. */
export function whole(name: string, value: unknown, most: bigint = 2n ** 64n - 1n): bigint {
  if (typeof value !== 'number' && typeof value !== 'bigint') throw wrong(name, 'a number or a bigint', value);
  const number = typeof value === 'bigint' || Number.isInteger(value) ? BigInt(value) : -1n;
  if (number < 0n || number > most) throw new RangeError(`${name} must be a whole number from 0 to ${most}, not ${value}`);
  return number;
}

/** One of these. */
export function oneOf<const Choice extends string>(name: string, choices: readonly Choice[], value: unknown): Choice {
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw new TypeError(`${name} must be one of ${choices.map((each) => `"${each}"`).join(', ')}, not ${shown(value)}`);
  return found;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : typeName(value);
}

/** Bytes, or text that becomes UTF-8. */
export function contents(name: string, value: unknown): Uint8Array {
  if (typeof value === 'string') return new TextEncoder().encode(of(name, 'string', value));
  if (value instanceof Uint8Array) return value;
  throw wrong(name, 'a string or a Uint8Array', value);
}

/** An object's entries. */
export function entries<Each>(name: string, value: unknown, each: (name: string, value: unknown) => Each): [string, Each][] {
  if (value === undefined) return [];
  const all = Object.entries(object(name, 'an object', value));
  return all.map(([key, one]) => [of(`a key of ${name}`, 'string', key), each(`${name}[${JSON.stringify(key)}]`, one)]);
}

/** An object, of which only these keys are known: a misspelt option would otherwise have no effect. */
export function known(name: string, value: unknown, keys: readonly string[]): void {
  const unknown = Object.keys(object(name, 'an object', value)).find((key) => !keys.includes(key));
  if (unknown !== undefined) throw new TypeError(`${name} has no \`${unknown}\`; there are ${keys.join(', ')}`);
}

/** An array's elements. */
export function list<Each>(name: string, value: unknown, each: (name: string, value: unknown) => Each): Each[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw wrong(name, 'an array', value);
  return value.map((one, index) => each(`${name}[${index}]`, one));
}

/** An object, and no array. */
export function object(name: string, wanted: string, value: unknown): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(name, wanted, value);
  return value;
}

/** `JSON.stringify` escapes these alone so. A backslash of the text itself is two. */
const LONE_SURROGATE = /(?:^|[^\\])(?:\\\\)*\\ud/;

/** A value as JSON text. */
export function json(name: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new TypeError(`${name} must be a value that JSON has: ${error instanceof Error ? error.message : error}`);
  }
  if (text === undefined) throw wrong(name, 'a value that JSON has', value);
  if (LONE_SURROGATE.test(text)) throw new TypeError(`${name} must be a value that JSON has: a lone surrogate has no form in UTF-8`);
  return text;
}

/** A signal that aborts. */
export function signal(name: string, value: unknown): AbortSignal | undefined {
  if (value !== undefined && !(value instanceof AbortSignal)) throw wrong(name, 'an AbortSignal', value);
  return value;
}
