'use strict';
// Values for the host, and the variables that it reads and sets between two executions.
//
// `lexicals` is the interpreter's own table of the bindings that scripts created with `let`, `const` and `class`. An
// uninitialised property of it must never be read here: the result would not be a value of the language.
{
  const $ = globalThis.$glovebox;
  const { cut, inspect, uncurry } = $;

  // Maximum lengths of the values returned to the host, in UTF-16 units. The host checks again, in bytes.
  const MOST_REPR = 65536;
  const MOST_JSON = 1 << 20;

  const { defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { isArray } = Array;
  // The older build has no `rawJSON`.
  const { parse, rawJSON, stringify } = JSON;
  const { isFinite, isSafeInteger, MAX_SAFE_INTEGER } = Number;
  const { abs } = Math;
  const BigIntOf = BigInt;
  const BigIntPrototype = BigInt.prototype;
  const bigintToString = uncurry(BigIntPrototype.toString);
  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const exec = uncurry(RegExp.prototype.exec);
  const hasOwn = uncurry(Object.prototype.hasOwnProperty);
  const indexOf = uncurry(String.prototype.indexOf);
  const slice = uncurry(String.prototype.slice);
  const setAdd = uncurry(Set.prototype.add);
  const setHas = uncurry(Set.prototype.has);
  const setDelete = uncurry(Set.prototype.delete);
  const ObjectPrototype = Object.prototype;
  const ArrayPrototype = Array.prototype;
  const SetClass = Set;
  const FORMS = Symbol.for('Jupyter.display');
  const Failure = TypeError;
  const global = globalThis;

  // The remaining number of characters, reduced by the minimum length of each value.
  let room = 0;

  const isPlain = (value, above) => {
    const prototype = getPrototypeOf(value);
    const isList = isArray(value);
    if (isList ? prototype !== ArrayPrototype : prototype !== ObjectPrototype && prototype !== null) return false;
    if (setHas(above, value)) return false;
    setAdd(above, value);
    if (isList) {
      // Each item needs at least a digit and a comma. Fast path: long lists usually contain only numbers.
      const { length } = value;
      let numbers = 0;
      if (length * 2 > room) return false;
      for (let i = 0; i < length; i++) {
        const item = value[i];
        if (typeof item === 'number' && item - item === 0) numbers++;
        else if (!isData(item, above)) return false;
      }
      room -= 2 * numbers;
    } else {
      const keys = ownKeys(value);
      for (let i = 0; i < keys.length; i++) {
        const own = getOwnPropertyDescriptor(value, keys[i]);
        if (own === undefined || !own.enumerable) continue;
        // The value of a getter is not data, and a symbol is not a name.
        if (typeof keys[i] !== 'string' || !hasOwn(own, 'value') || !isData(own.value, above)) return false;
        room -= keys[i].length + 3;
      }
    }
    setDelete(above, value);
    return true;
  };

  // Returns `true` if JSON represents a value exactly. Rejects class instances, getters, and values that
  // `JSON.stringify` omits or turns into `null`.
  const isData = (value, above) => {
    room -= 2;
    if (room < 0) return false;
    switch (typeof value) {
      case 'number': return value - value === 0;
      case 'string': room -= value.length; return true;
      case 'boolean': return true;
      case 'bigint':
        if (rawJSON === undefined || hasOwn(BigIntPrototype, 'toJSON')) return false;
        room -= bigintToString(value).length;
        return true;
      case 'object': return value === null || isPlain(value, above);
      default: return false;
    }
  };

  // Returns the position of the first escaped lone surrogate in text from `JSON.stringify`, or -1. The host's JSON parser
  // rejects them.
  const findLoneSurrogate = (text, start) => {
    for (let at = indexOf(text, '\\ud', start); at >= 0; at = indexOf(text, '\\ud', at + 1)) {
      let from = at;
      while (charCodeAt(text, from - 1) === 92) from--;
      if ((at - from) % 2 === 0) return at;
    }
    return -1;
  };

  $.hasLoneSurrogate = (text) => findLoneSurrogate(text, 0) >= 0;

  // Replaces the escaped lone surrogates in text from `JSON.stringify`.
  $.withoutLoneSurrogates = (text) => {
    let replaced = '';
    let start = 0;
    for (let at = findLoneSurrogate(text, 0); at >= 0; at = findLoneSurrogate(text, start)) {
      replaced += slice(text, start, at) + '\ufffd';
      start = at + 6;
    }
    return start === 0 ? text : replaced + slice(text, start);
  };

  // `JSON.stringify` throws for a `BigInt`, and writes rounded digits for numbers from 2^53. From 10^21, it uses an
  // exponent, which preserves the value.
  const MOST_DIGITS = 1e21;
  // Replacer for `JSON.stringify` that preserves all digits of integers.
  const exact = (key, value) => {
    if (typeof value === 'number') {
      const isExact = (value <= MAX_SAFE_INTEGER && value >= -MAX_SAFE_INTEGER) || abs(value) >= MOST_DIGITS || !isFinite(value);
      return isExact ? value : rawJSON(bigintToString(BigIntOf(value)));
    }
    return typeof value === 'bigint' ? rawJSON(bigintToString(value)) : value;
  };

  // `JSON.stringify`, with all digits of integers. Runs a script's getters and `toJSON` only once.
  const stringifyExact = (value) => (rawJSON === undefined ? stringify(value) : stringify(value, exact));

  $.stringifyExact = stringifyExact;

  const json = (value) => {
    room = MOST_JSON;
    try {
      // A `toJSON` of a built-in prototype affects every object. Without it, no code of the script runs here.
      if (hasOwn(ObjectPrototype, 'toJSON') || hasOwn(ArrayPrototype, 'toJSON') || !isData(value, new SetClass())) return undefined;
      const text = stringifyExact(value);
      return text.length > MOST_JSON || $.hasLoneSurrogate(text) ? undefined : text;
    } catch {
      // The value is nested too deeply for the stack, or a Proxy's trap threw.
      return undefined;
    }
  };

  // Returns a value in its printed form, and as JSON if JSON represents it exactly. The host reads the properties one
  // by one.
  $.show = (value) => {
    // Primitives have only a text form.
    if (typeof value === 'object' && value !== null) {
      try {
        if (typeof value[FORMS] === 'function') $.showResult(value);
      } catch {
        // Falls back to the text.
      }
    }
    return { repr: cut(inspect(value, 2), MOST_REPR), json: json(value) };
  };

  const LONG = /\d{16}/;
  const INTEGER = /^-?\d+$/;
  const restored = (key, value, about) => {
    if (typeof value !== 'number' || isSafeInteger(value)) return value;
    const source = about?.source;
    if (typeof source !== 'string' || exec(INTEGER, source) === null) return value;
    const exact = BigIntOf(source);
    return isFinite(value) && BigIntOf(value) === exact ? value : exact;
  };

  // `JSON.parse`, with a `BigInt` for an integer that a number cannot represent exactly.
  $.parseExact = (text) => (exec(LONG, text) === null ? parse(text) : parse(text, restored));

  // Returns the object from which the host reads a variable, or `undefined` if the variable does not exist.
  $.find = (lexicals, name) => (hasOwn(lexicals, name) ? lexicals : hasOwn(global, name) ? global : undefined);

  // Sets a variable like an execution that declares it with `var`. With `isText`, `given` is JSON text.
  $.assign = (lexicals, name, given, isText) => {
    const value = isText ? $.parseExact(given) : given;
    const fresh = { __proto__: null, value, writable: true, enumerable: true, configurable: true };
    // A `var` property cannot be redefined, only set.
    if (!defineProperty(global, name, fresh) && !defineProperty(global, name, { __proto__: null, value })) {
      throw new Failure(`the global variable '${name}' is read-only`);
    }
    deleteProperty(lexicals, name);
  };

  $.blank = () => ({ __proto__: null });

  // Returns the number of bindings.
  $.count = (lexicals) => ownKeys(lexicals).length;

  // Removes the bindings that a script is about to redeclare, and returns their number. Removes none if the script
  // cannot run in any case: `let` over a property of the global object that cannot be deleted.
  $.redeclare = (lexicals, lexical, other) => {
    const names = ownKeys(lexical);
    for (let i = 0; i < names.length; i++) {
      const own = getOwnPropertyDescriptor(global, names[i]);
      if (own !== undefined && !own.configurable) return 0;
    }
    const others = ownKeys(other);
    for (let i = 0; i < others.length; i++) names[names.length] = others[i];
    let removed = 0;
    for (let i = 0; i < names.length; i++) {
      if (!hasOwn(lexicals, names[i])) continue;
      deleteProperty(lexicals, names[i]);
      removed++;
    }
    return removed;
  };
}
