// Encodes binary data as JSON, both in the sandbox and on the host. The JSON is an object with the kind of the data,
// and its bytes in base64.

/** The key whose value is the kind of the data. */
const BINARY = '__codemode_binary_v1__';

/** Maximum depth of values. The limit also stops the conversion of circular values. */
const MAX_DEPTH = 100;

/** The source of `encode` and `decode` for scripts. */
export const SANDBOX_CODEC = `
const key = ${JSON.stringify(BINARY)};
const walk = (value, convert) => {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(convert);
  if (![Object.prototype, null].includes(Object.getPrototypeOf(value))) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, convert(each)]));
};
const encode = (value, depth = 0) => {
  if (depth > ${MAX_DEPTH}) throw new TypeError('the value is circular, or nested too deeply for JSON');
  if (value instanceof ArrayBuffer) return { [key]: 'ArrayBuffer', data: Buffer.from(value).toString('base64') };
  if (!ArrayBuffer.isView(value)) return walk(value, (each) => encode(each, depth + 1));
  return { [key]: 'Uint8Array', data: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64') };
};
const decode = (value) => {
  if (typeof value?.[key] !== 'string' || typeof value.data !== 'string') return walk(value, decode);
  const bytes = Uint8Array.from(Buffer.from(value.data, 'base64'));
  return value[key] === 'ArrayBuffer' ? bytes.buffer : bytes;
};`;

/** Converts the values of arrays and plain objects. */
function walk(value: unknown, convert: (value: unknown) => unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(convert);
  if (![Object.prototype, null].includes(Object.getPrototypeOf(value))) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, convert(each)]));
}

/** Replaces the binary data in a value with JSON objects. */
export function encode(value: unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) throw new TypeError('the value is circular, or nested too deeply for JSON');
  if (!(value instanceof ArrayBuffer) && !ArrayBuffer.isView(value)) return walk(value, (each) => encode(each, depth + 1));
  const bytes = ArrayBuffer.isView(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array(value);
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
  return { [BINARY]: ArrayBuffer.isView(value) ? 'Uint8Array' : 'ArrayBuffer', data: btoa(text) };
}

/** Restores the binary data in a value. Keeps text that is not base64, because a script can write any JSON. */
export function decode(value: any): unknown {
  if (typeof value?.[BINARY] !== 'string' || typeof value.data !== 'string') return walk(value, decode);
  try {
    const bytes = Uint8Array.from(atob(value.data), (character) => character.charCodeAt(0));
    return value[BINARY] === 'ArrayBuffer' ? bytes.buffer : bytes;
  } catch {
    return value;
  }
}
