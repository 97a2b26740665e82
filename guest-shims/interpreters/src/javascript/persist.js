'use strict';
// The globals that one execution passes to the next, as JSON.
{
  const $ = globalThis.$glovebox;
  const { hasLoneSurrogate, uncurry } = $;
  const { constructorName } = $.text;

  // The name of an object that exists even without stored globals.
  const STATE = '_state';
  // The host's parsers allow at most 127 levels.
  const MOST_DEPTH = 100;

  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { is } = Object;
  const { isArray } = Array;
  const { stringify } = JSON;
  const charCodeAt = uncurry(String.prototype.charCodeAt);
  const hasOwn = uncurry(Object.prototype.hasOwnProperty);
  const mapGet = uncurry(Map.prototype.get);
  const mapHas = uncurry(Map.prototype.has);
  const mapSet = uncurry(Map.prototype.set);
  const setAdd = uncurry(Set.prototype.add);
  const setHas = uncurry(Set.prototype.has);
  const setDelete = uncurry(Set.prototype.delete);
  const MapClass = Map;
  const SetClass = Set;
  const ObjectPrototype = Object.prototype;
  const ArrayPrototype = Array.prototype;
  const InternalPrototype = InternalError.prototype;
  const global = globalThis;

  // The properties of the global object that the script did not create, by name.
  let before;
  // The values of the properties in `before`.
  let builtins;
  // Maximum number of characters of the globals, and the number that remains for the current global.
  let most = 0;
  let room = 0;
  // The values that the setup code of a custom image bound with `let`, `const` and `class`, by name.
  const ofImage = new MapClass();
  // The names that the host has not requested yet.
  let names;
  let next = 0;

  // `scriptArgs` is set for each execution and is not part of the state.
  const isOwn = (name) => typeof name === 'string' && name !== 'scriptArgs' && (name === STATE || charCodeAt(name, 0) !== 95);
  const isObject = (value) => typeof value === 'object' && value !== null && !isArray(value);
  const define = (name, value) => {
    defineProperty(global, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  };

  // Called before the script. Sets the saved globals, an object from `JSON.parse` or `undefined`. `bytes` limits the
  // globals that the host saves afterwards.
  $.restoreGlobals = (state, bytes) => {
    most = bytes;
    names = undefined;
    before = new MapClass();
    builtins = new SetClass();
    const own = ownKeys(global);
    for (let i = 0; i < own.length; i++) {
      const property = getOwnPropertyDescriptor(global, own[i]);
      mapSet(before, own[i], property);
      if (hasOwn(property, 'value')) setAdd(builtins, property.value);
    }
    define(STATE, {});
    if (state === undefined) return;
    const kept = ownKeys(state);
    for (let i = 0; i < kept.length; i++) {
      const value = state[kept[i]];
      if (isOwn(kept[i]) && (kept[i] !== STATE || isObject(value))) define(kept[i], value);
    }
  };

  // Called once, after the setup code. Records its bindings and returns their number.
  $.keepBindings = (lexicals) => {
    const bound = ownKeys(lexicals);
    for (let i = 0; i < bound.length; i++) mapSet(ofImage, bound[i], lexicals[bound[i]]);
    return bound.length;
  };

  // Returns `true` if the script created a binding.
  const isBound = (lexicals, name) => {
    if (!mapHas(ofImage, name)) return true;
    try {
      return !is(mapGet(ofImage, name), lexicals[name]);
    } catch {
      return true; // redeclared, but not initialised
    }
  };

  // Returns `true` if the script created or changed a property of the global object, and the property holds a value.
  const isMade = (name) => {
    const now = getOwnPropertyDescriptor(global, name);
    if (now === undefined || !hasOwn(now, 'value')) return false;
    const old = mapGet(before, name);
    // A property created on first read is not the script's own.
    return old === undefined || (hasOwn(old, 'value') && !is(old.value, now.value));
  };

  // Called after the script. Returns the name of its next global. `let`, `const` and `class` bindings hide properties.
  $.nextGlobal = (lexicals) => {
    if (names === undefined) {
      const found = { __proto__: null };
      let count = 0;
      const declared = ownKeys(lexicals);
      for (let i = 0; i < declared.length; i++) {
        if (isOwn(declared[i]) && isBound(lexicals, declared[i])) found[count++] = declared[i];
      }
      const own = ownKeys(global);
      for (let i = 0; i < own.length; i++) {
        if (isOwn(own[i]) && !hasOwn(lexicals, own[i]) && isMade(own[i])) found[count++] = own[i];
      }
      // If an interrupt occurs before this line, the next call starts over.
      next = 0;
      names = found;
    }
    return names[next++];
  };

  // Results of `require` are imports, and objects that existed before the script are not its own.
  const isForeign = (value) => {
    if (setHas(builtins, value)) return true;
    const known = ownKeys($.node);
    for (let i = 0; i < known.length; i++) if (getOwnPropertyDescriptor($.node, known[i]).value === value) return true;
    const cache = getOwnPropertyDescriptor($, 'modules').value?.cache;
    const files = cache === undefined ? known : ownKeys(cache);
    if (files !== known) for (let i = 0; i < files.length; i++) if (cache[files[i]].exports === value) return true;
    return false;
  };

  // Thrown by `check` instead of errors. `reason` says why a value was refused.
  const REFUSED = { __proto__: null };
  const TOO_LONG = { __proto__: null };
  let reason = '';
  const refuse = (why) => {
    reason = why;
    throw REFUSED;
  };

  // Checks that JSON represents a value exactly, and that its minimum length fits: a digit and a comma for each item.
  const check = (value, above, depth) => {
    switch (typeof value) {
      case 'number':
        if (value - value !== 0) refuse(`JSON cannot represent \`${value}\``);
        break;
      case 'string':
        room -= value.length;
        break;
      case 'boolean': break;
      case 'object':
        if (value !== null) checkObject(value, above, depth + 1);
        break;
      default: refuse(`JSON cannot represent \`${typeof value}\``);
    }
    room -= 2;
    if (room < 0) throw TOO_LONG;
  };

  const checkObject = (value, above, depth) => {
    const prototype = getPrototypeOf(value);
    const isList = isArray(value);
    if (isList ? prototype !== ArrayPrototype : prototype !== ObjectPrototype && prototype !== null) {
      refuse(`JSON cannot represent \`${constructorName(value) ?? 'object without a constructor'}\``);
    }
    if (setHas(above, value)) refuse('it contains itself');
    if (depth > MOST_DEPTH) refuse(`it is nested more than ${MOST_DEPTH} levels deep`);
    setAdd(above, value);
    if (isList) {
      const { length } = value;
      if (length * 2 > room) throw TOO_LONG;
      for (let i = 0; i < length; i++) {
        const item = value[i];
        // Fast path: long lists usually contain only numbers.
        if (typeof item === 'number' && item - item === 0) room -= 2;
        else check(item, above, depth);
      }
    } else {
      const keys = ownKeys(value);
      for (let i = 0; i < keys.length; i++) {
        const own = getOwnPropertyDescriptor(value, keys[i]);
        if (own === undefined || !own.enumerable) continue;
        if (typeof keys[i] !== 'string') refuse('JSON cannot represent `symbol`');
        if (!hasOwn(own, 'value')) refuse('it contains an accessor property');
        room -= keys[i].length + 3;
        check(own.value, above, depth);
      }
    }
    setDelete(above, value);
  };

  // Returns the JSON text of a checked value. Passes only strings to `JSON.stringify`, which reads `toJSON` of every
  // object and sets numeric properties of its own lists: scripts may define accessors for these.
  const spell = (value) => {
    if (typeof value === 'string') return stringify(value);
    if (typeof value !== 'object' || value === null) return `${value}`;
    const isList = isArray(value);
    const keys = isList ? value : ownKeys(value);
    let text = '';
    for (let i = 0; i < keys.length; i++) {
      const own = isList ? undefined : getOwnPropertyDescriptor(value, keys[i]);
      if (!isList && !own.enumerable) continue;
      if (text !== '') text += ',';
      text += isList ? spell(value[i]) : `${stringify(keys[i])}:${spell(own.value)}`;
    }
    return isList ? `[${text}]` : `{${text}}`;
  };
  const textOf = (value) => {
    if (!hasOwn(ObjectPrototype, 'toJSON') && !hasOwn(ArrayPrototype, 'toJSON')) {
      try {
        return stringify(value);
      } catch {
        // May be out of memory; `spell` then throws the same error.
      }
    }
    return spell(value);
  };

  const write = (value) => {
    // `check` also counts a comma after the last item, which the text does not have.
    room = most + 2;
    check(value, new SetClass(), 0);
    const text = textOf(value);
    if (typeof text !== 'string') refuse('it cannot be read');
    if (text.length > most) throw TOO_LONG;
    if (hasLoneSurrogate(text)) refuse('it contains a lone surrogate');
    return text;
  };

  // Returns the host's view of a global: `=` and its JSON, `!` and the reason why it has none, `-` if it is not state,
  // or `+` if its JSON is too long. A hidden global is looked up here.
  $.keepGlobal = (name, found, isHidden) => {
    const value = isHidden === 1 && isMade(name) ? getOwnPropertyDescriptor(global, name).value : found;
    if (value === undefined || typeof value === 'function') return '-';
    try {
      if (typeof value === 'object' && value !== null && isForeign(value)) return '-';
      if (name === STATE && !isObject(value)) return '!it is not an object';
      return `=${write(value)}`;
    } catch (error) {
      if (error === TOO_LONG) return '+';
      // Out of memory is not a reason to refuse this global.
      if (error === null || (error !== REFUSED && typeof error === 'object' && getPrototypeOf(error) === InternalPrototype)) throw error;
      // Otherwise, a Proxy's trap threw.
      return `!${error === REFUSED ? reason : 'it cannot be read'}`;
    }
  };
}
