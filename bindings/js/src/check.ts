// Arguments of the wrong type are a `TypeError` that names them.

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

/** A value of a type. */
export function of<Type extends keyof Types>(name: string, type: Type, value: unknown): Types[Type] {
  if (typeof value !== type) throw wrong(name, `a ${type}`, value);
  return value as Types[Type];
}

/** The same, or `undefined`. */
export function optional<Type extends keyof Types>(name: string, type: Type, value: unknown): Types[Type] | undefined {
  return value === undefined ? undefined : of(name, type, value);
}

/** A whole number that is not negative, as a number or a bigint. */
export function whole(name: string, value: unknown): bigint {
  if (typeof value === 'bigint' && value >= 0n) return value;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return BigInt(value);
  if (typeof value === 'number' || typeof value === 'bigint') throw new RangeError(`${name} must be a whole number from 0 on, not ${value}`);
  throw wrong(name, 'a number or a bigint', value);
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
  if (typeof value === 'string') return new TextEncoder().encode(value);
  if (value instanceof Uint8Array) return value;
  throw wrong(name, 'a string or a Uint8Array', value);
}

/** An object's entries. */
export function entries<Each>(name: string, value: unknown, each: (name: string, value: unknown) => Each): [string, Each][] {
  if (value === undefined) return [];
  return Object.entries(object(name, 'an object', value)).map(([key, one]) => [key, each(`${name}[${JSON.stringify(key)}]`, one)]);
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

/** A value as JSON text. */
export function json(name: string, value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new TypeError(`${name} must be a value that JSON has: ${error instanceof Error ? error.message : error}`);
  }
  if (text === undefined) throw wrong(name, 'a value that JSON has', value);
  return text;
}

/** A signal that aborts. */
export function signal(name: string, value: unknown): AbortSignal | undefined {
  if (value !== undefined && !(value instanceof AbortSignal)) throw wrong(name, 'an AbortSignal', value);
  return value;
}
