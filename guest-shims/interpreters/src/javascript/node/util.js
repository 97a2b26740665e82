'use strict';
// `require('util')`.
{
  const $ = $glovebox;
  const { coded, inspectWith } = $;

  // Describes a received value as Node's messages do.
  $.received = (value) => {
    if (value === null || value === undefined) return `${value}`;
    if (typeof value === 'function') return `function ${value.name}`;
    if (typeof value === 'object') {
      const name = value.constructor?.name;
      return name ? `an instance of ${name}` : $.inspect(value, -1);
    }
    const text = $.inspect(value, 0);
    return `type ${typeof value} (${text.length > 28 ? `${text.slice(0, 25)}...` : text})`;
  };

  const tagIs = (...names) => (value) => typeof value === 'object' && names.includes(Object.prototype.toString.call(value).slice(8, -1));
  const typedTag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
  const types = {
    isDate: tagIs('Date'), isRegExp: tagIs('RegExp'), isMap: tagIs('Map'), isSet: tagIs('Set'), isWeakMap: tagIs('WeakMap'),
    isWeakSet: tagIs('WeakSet'), isPromise: (value) => value instanceof Promise, isNativeError: (value) => Error.isError?.(value) ?? value instanceof Error,
    isArrayBuffer: tagIs('ArrayBuffer'), isSharedArrayBuffer: tagIs('SharedArrayBuffer'), isAnyArrayBuffer: tagIs('ArrayBuffer', 'SharedArrayBuffer'),
    isDataView: tagIs('DataView'), isArrayBufferView: ArrayBuffer.isView, isTypedArray: (value) => typedTag.call(value) !== undefined,
    isUint8Array: (value) => typedTag.call(value) === 'Uint8Array', isGeneratorObject: tagIs('Generator'),
    isBoxedPrimitive: (value) => typeof value === 'object' && ['Number', 'String', 'Boolean', 'Symbol', 'BigInt'].some((name) => value instanceof globalThis[name]),
    isSymbolObject: (value) => value instanceof Symbol, isNumberObject: (value) => value instanceof Number, isStringObject: (value) => value instanceof String,
    isBooleanObject: (value) => value instanceof Boolean, isBigIntObject: (value) => value instanceof BigInt,
    isAsyncFunction: (value) => /^\[object Async/.test(Object.prototype.toString.call(value)) && typeof value === 'function',
    isGeneratorFunction: (value) => /Generator/.test(Object.prototype.toString.call(value)) && typeof value === 'function', isProxy: () => false,
    isArgumentsObject: tagIs('Arguments'), isMapIterator: tagIs('Map Iterator'), isSetIterator: tagIs('Set Iterator'), isModuleNamespaceObject: tagIs('Module'),
    isExternal: () => false, isKeyObject: () => false, isCryptoKey: () => false,
  };
  for (const kind of 'Uint8Clamped Uint16 Uint32 Int8 Int16 Int32 Float16 Float32 Float64 BigInt64 BigUint64'.split(' ')) {
    types[`is${kind}Array`] = (value) => typedTag.call(value) === `${kind}Array`;
  }

  // Deep equality, for `assert` and `isDeepStrictEqual`. Values that are being compared count as equal, so that cycles
  // end.
  const sameKeys = (a, b, isStrict, seen) => {
    const own = (value) => Reflect.ownKeys(value).filter((key) => Object.prototype.propertyIsEnumerable.call(value, key) && (isStrict || typeof key === 'string'));
    const keys = own(a);
    if (keys.length !== own(b).length) return false;
    return keys.every((key) => Object.prototype.propertyIsEnumerable.call(b, key) && deepEqual(a[key], b[key], isStrict, seen));
  };
  const sameMembers = (a, b, equal) => {
    const left = [...b];
    return a.every((item) => {
      const at = left.findIndex((other) => equal(item, other));
      if (at < 0) return false;
      left.splice(at, 1);
      return true;
    });
  };
  const deepEqual = (a, b, isStrict, seen = new Map()) => {
    if (Object.is(a, b)) return true;
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) {
      // eslint-disable-next-line eqeqeq
      return !isStrict && ((typeof a !== 'object' && typeof b !== 'object') || a === null || b === null) && (a == b || (a !== a && b !== b));
    }
    if (isStrict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
    const tag = Object.prototype.toString.call(a);
    if (tag !== Object.prototype.toString.call(b) || Array.isArray(a) !== Array.isArray(b)) return false;
    if (seen.get(a) === b) return true;
    seen.set(a, b);
    const isSame = sameObjects(a, b, isStrict, seen, tag);
    seen.delete(a);
    return isSame;
  };
  const sameObjects = (a, b, isStrict, seen, tag) => {
    const equal = (x, y) => deepEqual(x, y, isStrict, seen);
    if (Array.isArray(a) && a.length !== b.length) return false;
    if (a instanceof Date && !Object.is(a.getTime(), b.getTime())) return false;
    if (a instanceof RegExp && (`${a}` !== `${b}` || a.lastIndex !== b.lastIndex)) return false;
    if (a instanceof Error && (a.message !== b.message || a.name !== b.name || !equal(a.cause, b.cause))) return false;
    if (types.isBoxedPrimitive(a) && !Object.is(a.valueOf(), b.valueOf())) return false;
    if (types.isArrayBufferView(a) || types.isAnyArrayBuffer(a)) {
      const [x, y] = [$.encoding.bytesOf(a), $.encoding.bytesOf(b)];
      if (types.isTypedArray(a) && /Float/.test(tag)) return a.length === b.length && a.every((item, i) => (isStrict ? Object.is(item, b[i]) : item === b[i]));
      return x.length === y.length && x.every((byte, i) => byte === y[i]);
    }
    if (a instanceof Set && (a.size !== b.size || ![...a].every((item) => b.has(item)))) {
      if (a.size !== b.size || !sameMembers([...a], b, equal)) return false;
    }
    if (a instanceof Map) {
      if (a.size !== b.size) return false;
      const isSame = (x, y) => equal(x[0], y[0]) && equal(x[1], y[1]);
      if (![...a].every(([key, value]) => b.has(key) && equal(value, b.get(key))) && !sameMembers([...a], b, isSame)) return false;
    }
    if (a instanceof WeakMap || a instanceof WeakSet || a instanceof Promise) return false;
    return sameKeys(a, b, isStrict, seen);
  };
  $.deepEqual = deepEqual;

  const inspect = (value, options, depth) => {
    if (typeof options === 'boolean') return inspectWith(value, { showHidden: options, depth: depth === undefined ? 2 : depth });
    return inspectWith(value, options ?? {});
  };
  inspect.custom = $.CUSTOM;
  inspect.defaultOptions = { depth: 2, colors: false, showHidden: false, maxArrayLength: 100, maxStringLength: 10000, breakLength: 80, compact: 3, sorted: false };
  inspect.colors = {};
  inspect.styles = {};

  const PROMISIFIED = Symbol.for('nodejs.util.promisify.custom');
  const isFunction = (name, value) => {
    if (typeof value !== 'function') throw $.functionError(name, value);
  };
  const promisify = (original) => {
    isFunction('original', original);
    if (original === setTimeout || original === setImmediate) return $.node['timers/promises'][original.name];
    if (original[PROMISIFIED]) {
      isFunction('util.promisify.custom', original[PROMISIFIED]);
      return original[PROMISIFIED];
    }
    const promised = function (...args) {
      return new Promise((resolve, reject) => {
        original.call(this, ...args, (error, value) => (error ? reject(error) : resolve(value)));
      });
    };
    Object.setPrototypeOf(promised, Object.getPrototypeOf(original));
    return Object.defineProperties(promised, Object.getOwnPropertyDescriptors(original));
  };
  promisify.custom = PROMISIFIED;

  const warned = new Set();
  const util = {
    inspect,
    promisify,
    types,
    format: (...args) => $.format(args),
    formatWithOptions: (options, ...args) => $.format(args),
    parseArgs: (config) => $.parseArgs(config),
    isDeepStrictEqual: (a, b) => deepEqual(a, b, true),
    callbackify(original) {
      isFunction('original', original);
      return function (...args) {
        const callback = args.pop();
        isFunction('last argument', callback);
        original.apply(this, args).then(
          (value) => queueMicrotask(() => callback(null, value)),
          (reason) => queueMicrotask(() => callback(reason ?? coded(Error, 'ERR_FALSY_VALUE_REJECTION', 'Promise was rejected with falsy value'))),
        );
      };
    },
    inherits(derived, base) {
      if (derived === undefined || derived === null) throw $.functionError('ctor', derived);
      if (base === undefined || base === null) throw $.functionError('superCtor', base);
      Object.defineProperty(derived, 'super_', { value: base, writable: true, configurable: true });
      Object.setPrototypeOf(derived.prototype, base.prototype);
    },
    deprecate(original, message, code) {
      return function (...args) {
        const key = code ?? message;
        if (!warned.has(key)) process.emitWarning(message, { type: 'DeprecationWarning', code });
        warned.add(key);
        return new.target ? Reflect.construct(original, args, new.target) : original.apply(this, args);
      };
    },
    debuglog: () => Object.assign(() => {}, { enabled: false }),
    debug: () => Object.assign(() => {}, { enabled: false }),
    stripVTControlCharacters: (text) => text.replace(/\x1b(?:\[[0-?]*[ -\/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])/g, ''),
    styleText: (style, text) => `${text}`,
    toUSVString: (text) => `${text}`.toWellFormed(),
    isArray: Array.isArray,
    TextEncoder: $.encoding.TextEncoder,
    TextDecoder: $.encoding.TextDecoder,
  };
  $.node.util = util;
  $.node.sys = util;
  $.node['util/types'] = types;
}
