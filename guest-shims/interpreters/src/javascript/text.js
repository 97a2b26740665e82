'use strict';
// Formats the parts of printed values: primitives, keys, class names, functions and errors.
//
// Everything used here is captured before the first script runs. Nothing that a script can replace (iteration
// protocols, `Array.prototype`, regular expressions) is used afterwards.
{
  const $ = globalThis.$glovebox;
  const { uncurry } = $;

  // Longer strings inside objects are truncated, as in Node.
  const MOST_STRING = 10000;

  const { construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { is } = Object;
  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const includes = uncurry(String.prototype.includes);
  const startsWith = uncurry(String.prototype.startsWith);
  const slice = uncurry(String.prototype.slice);
  const upper = uncurry(String.prototype.toUpperCase);
  const numberToString = uncurry(Number.prototype.toString);
  const bigintToString = uncurry(BigInt.prototype.toString);
  const symbolToString = uncurry(Symbol.prototype.toString);
  const functionToString = uncurry(Function.prototype.toString);
  const objectToString = uncurry(Object.prototype.toString);
  const hasOwn = uncurry(Object.prototype.hasOwnProperty);
  const ObjectPrototype = Object.prototype;
  const ArrayPrototype = Array.prototype;
  const { toStringTag } = Symbol;
  // QuickJS omits the name of the time zone, which is always UTC here.
  const { prototype: dates } = Date;
  const [dateText, timeText] = [uncurry(dates.toString), uncurry(dates.toTimeString)];
  const zoned = (text) => (text === 'Invalid Date' ? text : `${text} (Coordinated Universal Time)`);
  const dateTexts = {
    __proto__: null,
    toString() {
      return zoned(dateText(this));
    },
    toTimeString() {
      return zoned(timeText(this));
    },
  };
  for (const name in dateTexts) defineProperty(dates, name, { __proto__: null, value: dateTexts[name], writable: true, configurable: true, enumerable: false });

  const Failure = Error;
  const BUILTIN = [Object, Array, Error, Date, RegExp, Function, Number, String, Boolean, Symbol, BigInt];
  const builtinTexts = [];
  for (let i = 0; i < BUILTIN.length; i++) builtinTexts[i] = BUILTIN[i].prototype.toString;

  const escapes = { __proto__: null, 8: '\\b', 9: '\\t', 10: '\\n', 11: '\\v', 12: '\\f', 13: '\\r', 92: '\\\\' };

  const quote = (text) => {
    let mark = "'";
    if (includes(text, "'")) {
      if (!includes(text, '"')) mark = '"';
      else if (!includes(text, '`') && !includes(text, '${')) mark = '`';
    }
    const markCode = charCodeAt(mark, 0);
    let out = mark;
    let from = 0;
    for (let i = 0; i < text.length; i++) {
      const code = charCodeAt(text, i);
      let replacement;
      if (code === markCode) replacement = '\\' + mark;
      else if (code === 92 || (code >= 8 && code <= 13)) replacement = escapes[code];
      else if (code < 32 || (code > 126 && code < 160)) {
        replacement = '\\x' + (code < 16 ? '0' : '') + upper(numberToString(code, 16));
      } else if (code >= 0xd800 && code <= 0xdfff) {
        const next = i + 1 < text.length ? charCodeAt(text, i + 1) : 0;
        if (code <= 0xdbff && next >= 0xdc00 && next <= 0xdfff) {
          i++;
          continue;
        }
        replacement = '\\u' + numberToString(code, 16);
      } else continue;
      out += slice(text, from, i) + replacement;
      from = i + 1;
    }
    return out + slice(text, from) + mark;
  };

  const formatNumber = (value) => (is(value, -0) ? '-0' : numberToString(value));

  const more = (count, what) => `... ${count} more ${what}${count > 1 ? 's' : ''}`;

  const formatPrimitive = (value, most = MOST_STRING) => {
    switch (typeof value) {
      case 'string':
        if (value.length <= most) return quote(value);
        return quote(slice(value, 0, most)) + more(value.length - most, 'character');
      case 'number':
        return formatNumber(value);
      case 'bigint':
        return bigintToString(value) + 'n';
      case 'symbol':
        return symbolToString(value);
      case 'boolean':
        return value ? 'true' : 'false';
      default:
        return value === null ? 'null' : 'undefined';
    }
  };

  const isIdentifier = (text) => {
    for (let i = 0; i < text.length; i++) {
      const c = charCodeAt(text, i);
      const letter = (c >= 97 && c <= 122) || (c >= 65 && c <= 90) || c === 95;
      if (!letter && !(i > 0 && c >= 48 && c <= 57)) return false;
    }
    return text.length > 0;
  };

  const isIndex = (key) => {
    if (typeof key !== 'string' || key.length === 0 || key.length > 10) return false;
    for (let i = 0; i < key.length; i++) {
      const c = charCodeAt(key, i);
      if (c < 48 || c > 57) return false;
    }
    return true;
  };

  const formatKey = (key, enumerable) => {
    if (!enumerable) return `[${typeof key === 'symbol' ? symbolToString(key) : key}]`;
    if (typeof key === 'symbol') return `[${symbolToString(key)}]`;
    if (key === '__proto__') return "['__proto__']";
    return isIdentifier(key) ? key : quote(key);
  };

  // Returns a property, or `undefined` if reading it throws.
  const read = (value, key) => {
    try {
      return value[key];
    } catch {
      return undefined;
    }
  };

  const safeString = (value) => {
    try {
      return typeof value === 'symbol' ? symbolToString(value) : `${value}`;
    } catch {
      return '[object]';
    }
  };

  // Returns a function's own name without calling getters.
  const ownName = (callable) => {
    const own = getOwnPropertyDescriptor(callable, 'name');
    return own !== undefined && typeof own.value === 'string' ? own.value : '';
  };

  // Returns the name of the class of a value, or `null` if it has none. Does not call getters.
  const constructorName = (value) => {
    let object = getPrototypeOf(value);
    // Avoids the cost of property descriptors for the two most common classes.
    if (object === ObjectPrototype && !hasOwn(value, 'constructor')) return 'Object';
    if (object === ArrayPrototype && !hasOwn(value, 'constructor')) return 'Array';
    object = value;
    for (let hops = 0; object !== null && hops < 100; hops++) {
      const own = getOwnPropertyDescriptor(object, 'constructor');
      // A class's own prototype is an instance of the parent class.
      if (own !== undefined && typeof own.value === 'function' && getOwnPropertyDescriptor(own.value, 'prototype')?.value !== value) {
        const name = ownName(own.value);
        if (name !== '') return name;
      }
      object = getPrototypeOf(object);
    }
    return null;
  };

  const tagOf = (value, name) => {
    const tag = read(value, toStringTag);
    return typeof tag === 'string' && tag !== '' && tag !== name ? ` [${slice(tag, 0, 128)}]` : '';
  };

  const prefix = (value, name, fallback, size) => {
    const shown = size === undefined ? '' : `(${size})`;
    if (name === null) return `[${fallback}${shown}: null prototype]${tagOf(value, fallback)} `;
    return `${name}${shown}${tagOf(value, name)} `;
  };

  const functionText = (value, name) => {
    const source = functionToString(value);
    const called = ownName(value);
    if (startsWith(source, 'class') && slice(source, -1) === '}') {
      const parent = getPrototypeOf(value);
      const parentName = typeof parent === 'function' ? ownName(parent) : '';
      return `[class ${called || '(anonymous)'}${parentName === '' ? '' : ` extends ${parentName}`}]`;
    }
    const tag = slice(objectToString(value), 8, -1);
    const kind = tag === 'AsyncFunction' || tag === 'GeneratorFunction' || tag === 'AsyncGeneratorFunction' ? tag : 'Function';
    return `[${kind}${called === '' ? ' (anonymous)' : `: ${called}`}]${name === null ? ' [null prototype]' : ''}`;
  };

  // Returns an error's name and message, like `Error.prototype.toString`.
  const headOf = (value) => {
    const name = read(value, 'name');
    const message = read(value, 'message');
    const title = name === undefined ? 'Error' : safeString(name);
    const text = message === undefined ? '' : safeString(message);
    return title === '' ? text : text === '' ? title : `${title}: ${text}`;
  };

  const withoutEnd = (text) => (slice(text, -1) === '\n' ? slice(text, 0, -1) : text);

  // QuickJS stores only the frames in `stack`. In V8, the name and the message come first.
  const stackText = (value, frames) => {
    const head = headOf(value);
    const shown = withoutEnd($.userFrames(frames));
    return shown === '' ? head : `${head}\n${shown}`;
  };

  // Returns only the frames of an error, without the line break at their end.
  const framesOf = (value) => {
    const stack = read(value, 'stack');
    if (typeof stack !== 'string') return '';
    const head = headOf(value);
    if (stack === head) return '';
    return withoutEnd($.userFrames(startsWith(stack, `${head}\n`) ? slice(stack, head.length + 1) : stack));
  };

  const setFrames = (value, frames) => {
    const get = () => stackText(value, frames);
    const set = (next) => {
      defineProperty(value, 'stack', { __proto__: null, value: next, writable: true, configurable: true, enumerable: false });
    };
    return defineProperty(value, 'stack', { __proto__: null, get, set, configurable: true, enumerable: false });
  };

  // In the older build, every error has its own `stack`.
  const native = getOwnPropertyDescriptor(Failure.prototype, 'stack');
  if (native !== undefined) {
    const stackOf = uncurry(native.get);
    const setStack = uncurry(native.set);
    const isPrepared = () => read(Failure, 'prepareStackTrace') !== undefined;
    const stack = {
      get stack() {
        const frames = stackOf(this);
        return typeof frames !== 'string' || isPrepared() ? frames : stackText(this, frames);
      },
      // The native setter accepts only text.
      set stack(next) {
        if (typeof next === 'string') setStack(this, next);
        else defineProperty(this, 'stack', { __proto__: null, value: next, writable: true, configurable: true, enumerable: false });
      },
    };
    const { get, set } = getOwnPropertyDescriptor(stack, 'stack');
    defineProperty(Failure.prototype, 'stack', { __proto__: null, get, set, configurable: true, enumerable: false });
    const capture = Failure.captureStackTrace;
    const methods = {
      captureStackTrace(value, above) {
        capture(value, typeof above === 'function' ? above : methods.captureStackTrace);
        const own = getOwnPropertyDescriptor(value, 'stack');
        if (own !== undefined && typeof own.value === 'string' && !isPrepared()) setFrames(value, own.value);
      },
    };
    defineProperty(Failure, 'captureStackTrace', { __proto__: null, value: methods.captureStackTrace, writable: true, configurable: true, enumerable: false });

    // A `DOMException` has its own `stack`, which also contains only frames.
    const Native = globalThis.DOMException;
    if (typeof Native === 'function') {
      const BUILDER = '    at construct (native)\n';
      const DOMException = function DOMException() {
        const value = new.target === undefined ? Native() : construct(Native, arguments, new.target);
        const own = getOwnPropertyDescriptor(value, 'stack');
        if (own === undefined || typeof own.value !== 'string' || isPrepared()) return value;
        setFrames(value, startsWith(own.value, BUILDER) ? slice(own.value, BUILDER.length) : own.value);
        return value;
      };
      const keys = ownKeys(Native);
      for (let i = 0; i < keys.length; i++) defineProperty(DOMException, keys[i], getOwnPropertyDescriptor(Native, keys[i]));
      defineProperty(Native.prototype, 'constructor', { __proto__: null, value: DOMException, writable: true, configurable: true, enumerable: false });
      defineProperty(globalThis, 'DOMException', { __proto__: null, value: DOMException, writable: true, configurable: true, enumerable: false });
    }
  }

  // Returns `name: message` and the frames below it.
  const errorText = (value, name) => {
    let title = read(value, 'name');
    title = typeof title === 'string' ? title : 'Error';
    // As in Node, the class comes first unless the script gave the error a name that does not end in `Error`.
    if (name !== null && name !== title && (title === '' || slice(title, -5) === 'Error')) {
      title = title === '' || includes(name, title) ? name : `${name} [${title}]`;
    }
    let message = read(value, 'message');
    message = typeof message === 'string' ? message : message === undefined ? '' : safeString(message);
    const head = title === '' ? message : message === '' ? title : `${title}: ${message}`;
    const frames = framesOf(value);
    if (frames === '') return `[${head}]`;
    return startsWith(frames, head) ? frames : `${head}\n${frames}`;
  };

  const isError = (value) => {
    try {
      return value instanceof Failure || objectToString(value) === '[object Error]';
    } catch {
      return false;
    }
  };

  // Returns `true` if an object has its own conversion to a string, which `%s` then uses.
  const hasOwnText = (value) => {
    const method = read(value, 'toString');
    if (typeof method !== 'function') return false;
    for (let i = 0; i < builtinTexts.length; i++) if (method === builtinTexts[i]) return false;
    return true;
  };

  $.text = {
    __proto__: null,
    constructorName, errorText, formatKey, formatNumber, formatPrimitive, framesOf, functionText, hasOwnText, isError, isIndex,
    more, prefix, quote, read, safeString, setFrames, tagOf,
  };
}
