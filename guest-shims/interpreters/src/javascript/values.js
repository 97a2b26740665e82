'use strict';
// Values that go to the host, and the variables that it reads and sets between two executions.
//
// `lexicals` is the interpreter's own table of the bindings that scripts made with `let`, `const` and `class`. A property
// of it that is not initialised must never be read here: what comes out is no value of the language.
{
  const $ = globalThis.$glovebox;
  const { cut, inspect, uncurry } = $;

  // Bounds of what goes back to the host, in UTF-16 units. The host counts again, in bytes.
  const MOST_REPR = 65536;
  const MOST_JSON = 1 << 20;

  const { defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { isArray } = Array;
  const { parse, stringify } = JSON;
  const { isFinite, isSafeInteger } = Number;
  const BigIntOf = BigInt;
  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const exec = uncurry(RegExp.prototype.exec);
  const hasOwn = uncurry(Object.prototype.hasOwnProperty);
  const indexOf = uncurry(String.prototype.indexOf);
  const setAdd = uncurry(Set.prototype.add);
  const setHas = uncurry(Set.prototype.has);
  const setDelete = uncurry(Set.prototype.delete);
  const ObjectPrototype = Object.prototype;
  const ArrayPrototype = Array.prototype;
  const SetClass = Set;
  const FORMS = Symbol.for('Jupyter.display');
  const Failure = TypeError;
  const global = globalThis;

  // How much text is left to write, at the least that each value takes.
  let room = 0;

  const isPlain = (value, above) => {
    const prototype = getPrototypeOf(value);
    const isList = isArray(value);
    if (isList ? prototype !== ArrayPrototype : prototype !== ObjectPrototype && prototype !== null) return false;
    if (setHas(above, value)) return false;
    setAdd(above, value);
    if (isList) {
      // An item takes a digit and a comma at least. Long lists are mostly lists of numbers.
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
        // A getter's value is not data, a symbol no name.
        if (typeof keys[i] !== 'string' || !hasOwn(own, 'value') || !isData(own.value, above)) return false;
        room -= keys[i].length + 3;
      }
    }
    setDelete(above, value);
    return true;
  };

  // Whether JSON says exactly what a value is. Classes, getters, and what `JSON.stringify` leaves out or turns into `null`
  // make it something else than data.
  const isData = (value, above) => {
    room -= 2;
    if (room < 0) return false;
    switch (typeof value) {
      case 'number': return value - value === 0;
      case 'string': room -= value.length; return true;
      case 'boolean': return true;
      case 'object': return value === null || isPlain(value, above);
      default: return false;
    }
  };

  // Half a character outside the basic plane becomes an escape that no other language reads.
  const hasLoneSurrogate = (text) => {
    for (let at = indexOf(text, '\\ud'); at >= 0; at = indexOf(text, '\\ud', at + 1)) {
      let from = at;
      while (charCodeAt(text, from - 1) === 92) from--;
      if ((at - from) % 2 === 0) return true;
    }
    return false;
  };

  $.hasLoneSurrogate = hasLoneSurrogate;

  const json = (value) => {
    room = MOST_JSON;
    try {
      // Methods of a script's may answer for every object; otherwise nothing of its own runs here.
      if (hasOwn(ObjectPrototype, 'toJSON') || hasOwn(ArrayPrototype, 'toJSON') || !isData(value, new SetClass())) return undefined;
      const text = stringify(value);
      return text.length > MOST_JSON || hasLoneSurrogate(text) ? undefined : text;
    } catch {
      // Nested deeper than the stack, or a Proxy whose traps throw.
      return undefined;
    }
  };

  // As the console shows it, and as JSON where it is that. The host reads the properties one by one.
  $.show = (value) => {
    // Most values are no objects, or plain ones, and have no other form than text.
    if (typeof value === 'object' && value !== null) {
      try {
        if (typeof value[FORMS] === 'function') $.showResult(value);
      } catch {
        // Then its text is all.
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

  // `JSON.parse`, with a `BigInt` for an integer that a number does not hold exactly.
  $.parseExact = (text) => (exec(LONG, text) === null ? parse(text) : parse(text, restored));

  // The object that has a variable, for the host to read it from.
  $.find = (lexicals, name) => (hasOwn(lexicals, name) ? lexicals : hasOwn(global, name) ? global : undefined);

  // Sets a variable as an execution that declares it with `var` would. With `isText`, `value` is JSON text.
  $.assign = (lexicals, name, given, isText) => {
    const value = isText ? $.parseExact(given) : given;
    const fresh = { __proto__: null, value, writable: true, enumerable: true, configurable: true };
    // One that `var` made cannot be made anew, only set.
    if (!defineProperty(global, name, fresh) && !defineProperty(global, name, { __proto__: null, value })) {
      throw new Failure(`the global variable '${name}' is read-only`);
    }
    deleteProperty(lexicals, name);
  };

  $.blank = () => ({ __proto__: null });

  // How many bindings there are.
  $.count = (lexicals) => ownKeys(lexicals).length;

  // Removes the bindings that a script is about to declare again, and says how many there were. None if the script cannot
  // be run in any case: `let` over a property of the global object that cannot be deleted.
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
