'use strict';
// Formats values in the style of Node's `util.inspect`, for `console.log`.
{
  const $ = globalThis.$glovebox;
  const { uncurry } = $;
  const {
    constructorName, errorText, formatKey, formatNumber, formatPrimitive, functionText, isError, isIndex, more, prefix,
    quote, tagOf,
  } = $.text;

  const BREAK_LENGTH = 80;
  const COMPACT = 3;
  const MOST_ITEMS = 100;
  const DEPTH = 2;
  // The name of the method with which an object returns its own text.
  const CUSTOM = Symbol.for('nodejs.util.inspect.custom');
  const MOST_KEYS = 1000;
  // Approximate maximum length of the text of a structure. A small graph can have exponentially many paths.
  const MOST_TEXT = 1 << 20;
  // Maximum length of an array hole that is skipped index by index. All keys are listed to find the end of a longer
  // hole.
  const SHORT_HOLE = 1000;
  // Lists with more items are printed without named properties, because listing all keys is too expensive.
  const MOST_LISTED = 10000;
  // Maximum number of calls of `CUSTOM` methods, which may format other objects with such methods.
  const MOST_CALLS = 10000;
  // Equal to the limit in `text.js`.
  const MOST_STRING = 10000;

  const { ownKeys, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const isArray = Array.isArray;
  const includes = uncurry(String.prototype.includes);
  const indexOf = uncurry(String.prototype.indexOf);
  const padStart = uncurry(String.prototype.padStart);
  const padEnd = uncurry(String.prototype.padEnd);
  const repeat = uncurry(String.prototype.repeat);
  const slice = uncurry(String.prototype.slice);
  const numberToString = uncurry(Number.prototype.toString);
  const objectToString = uncurry(Object.prototype.toString);
  const regexpToString = uncurry(RegExp.prototype.toString);
  const dateToISO = uncurry(Date.prototype.toISOString);
  const dateToString = uncurry(Date.prototype.toString);
  const dateGetTime = uncurry(Date.prototype.getTime);
  const hasOwn = uncurry(Object.prototype.hasOwnProperty);
  const isEnumerable = uncurry(Object.prototype.propertyIsEnumerable);
  const mapForEach = uncurry(Map.prototype.forEach);
  const setForEach = uncurry(Set.prototype.forEach);
  const getter = (prototype, name) => uncurry(getOwnPropertyDescriptor(prototype, name).get);
  const mapSize = getter(Map.prototype, 'size');
  const setSize = getter(Set.prototype, 'size');
  const typedPrototype = getPrototypeOf(Uint8Array.prototype);
  const typedTag = getter(typedPrototype, Symbol.toStringTag);
  const typedLength = getter(typedPrototype, 'length');
  const bufferLength = getter(ArrayBuffer.prototype, 'byteLength');
  const sharedLength = getter(SharedArrayBuffer.prototype, 'byteLength');
  const viewLength = getter(DataView.prototype, 'byteLength');
  const viewOffset = getter(DataView.prototype, 'byteOffset');
  const viewBuffer = getter(DataView.prototype, 'buffer');
  const weakDeref = uncurry(WeakRef.prototype.deref);
  // 0 for a pending promise, 1 for a fulfilled one, 2 for a rejected one; negative for any other value.
  const promiseState = uncurry($.promiseState);
  const promiseResult = uncurry($.promiseResult);
  const numberValue = uncurry(Number.prototype.valueOf);
  const stringValue = uncurry(String.prototype.valueOf);
  const booleanValue = uncurry(Boolean.prototype.valueOf);
  const symbolValue = uncurry(Symbol.prototype.valueOf);
  const bigintValue = uncurry(BigInt.prototype.valueOf);
  const { min, max, round, floor, sqrt } = Math;
  const Bytes = Uint8Array;
  const call = uncurry(Function.prototype.call);

  const add = (list, item) => {
    list[list.length] = item;
  };

  const join = (parts, separator) => {
    let text = '';
    for (let i = 0; i < parts.length; i++) text += i === 0 ? parts[i] : separator + parts[i];
    return text;
  };

  // Returns the result of a built-in class's getter, or `undefined` if the value does not have the class's internal
  // slot. An object that only inherits from the prototype does not have it.
  const slot = (probe, value) => {
    try {
      return probe(value);
    } catch {
      return undefined;
    }
  };

  const indented = (text, by) => {
    const line = '\n' + repeat(' ', by);
    let out = '';
    let from = 0;
    for (;;) {
      const at = indexOf(text, '\n', from);
      if (at < 0) return out + slice(text, from);
      out += slice(text, from, at) + line;
      from = at + 1;
    }
  };

  const inner = (context, value, level) => {
    context.indent += 2;
    const text = formatValue(context, value, level);
    context.indent -= 2;
    return text;
  };

  const formatProperty = (context, own, level) => {
    if (own === undefined) return 'undefined';
    if (own.get !== undefined) return own.set !== undefined ? '[Getter/Setter]' : '[Getter]';
    if (own.set !== undefined) return '[Setter]';
    return inner(context, own.value, level);
  };

  // Returns the first index at or after `from` that is set in an array, or the array's length.
  const nextIndex = (value, from) => {
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length && isIndex(keys[i]); i++) if (+keys[i] >= from) return +keys[i];
    return value.length;
  };

  const arrayItems = (context, value, level) => {
    const output = [];
    const length = value.length;
    let index = 0;
    while (index < length && output.length < context.items) {
      const own = getOwnPropertyDescriptor(value, index);
      if (own !== undefined) {
        add(output, formatProperty(context, own, level));
        index++;
        continue;
      }
      const from = index;
      while (index < length && index - from < SHORT_HOLE && !hasOwn(value, index)) index++;
      if (index - from === SHORT_HOLE) index = nextIndex(value, index);
      add(output, `<${index - from} empty item${index - from > 1 ? 's' : ''}>`);
    }
    if (index < length) add(output, more(length - index, 'item'));
    return output;
  };

  const TYPED_KEYS = ['BYTES_PER_ELEMENT', 'length', 'byteLength', 'byteOffset', 'buffer'];
  const typedItems = (context, value, length, level) => {
    const output = [];
    for (let i = 0; i < length && i < context.items; i++) add(output, formatPrimitive(value[i]));
    if (length > context.items) add(output, more(length - context.items, 'item'));
    for (let i = 0; context.isHiddenShown && i < TYPED_KEYS.length; i++) {
      add(output, `[${TYPED_KEYS[i]}]: ${inner(context, value[TYPED_KEYS[i]], level)}`);
    }
    return output;
  };

  const collectionItems = (context, value, size, forEach, item) => {
    const output = [];
    forEach(value, (member, key) => {
      if (output.length < context.items) add(output, item(member, key));
    });
    if (size > context.items) add(output, more(size - context.items, 'item'));
    return output;
  };

  const hexBytes = (buffer, length) => {
    const bytes = new Bytes(buffer);
    let text = '';
    for (let i = 0; i < length && i < 50; i++) {
      text += (i > 0 ? ' ' : '') + (bytes[i] < 16 ? '0' : '') + numberToString(bytes[i], 16);
    }
    if (length > 50) text += ` ${more(length - 50, 'byte')}`;
    return `<${text}>`;
  };

  // Lays out long lists of short items in columns, with Node's arithmetic.
  const columns = (context, output, value) => {
    let total = 0;
    let longest = 0;
    const count = output.length > context.items ? output.length - 1 : output.length;
    for (let i = 0; i < count; i++) {
      total += output[i].length + 2;
      longest = max(longest, output[i].length);
    }
    const widest = longest + 2;
    if (widest * 3 + context.indent >= context.width || !(total / widest > 5 || longest <= 6)) return output;
    const bias = max(widest - 3 - sqrt(widest - total / output.length), 1);
    const across = min(
      round(sqrt(2.5 * bias * count) / bias), floor((context.width - context.indent) / widest), context.compact * 4, 15,
    );
    if (across <= 1) return output;
    const widths = [];
    for (let i = 0; i < across; i++) {
      let width = 0;
      for (let j = i; j < count; j += across) width = max(width, output[j].length);
      add(widths, width + 2);
    }
    let right = true;
    for (let i = 0; right && i < output.length; i++) {
      const own = getOwnPropertyDescriptor(value, i);
      right = own !== undefined && (typeof own.value === 'number' || typeof own.value === 'bigint');
    }
    const lines = [];
    for (let i = 0; i < count; i += across) {
      const end = min(i + across, count);
      let line = '';
      for (let j = i; j < end - 1; j++) {
        line += right ? padStart(output[j] + ', ', widths[j - i]) : padEnd(output[j] + ', ', widths[j - i]);
      }
      line += right ? padStart(output[end - 1], widths[end - 1 - i] - 2) : output[end - 1];
      add(lines, line);
    }
    if (count < output.length) add(lines, output[count]);
    return lines;
  };

  const assemble = (context, output, shape, level, value) => {
    const entries = output.length;
    const { base, open, close } = shape;
    if (shape.isList && entries > 6 && context.compact > 0) output = columns(context, output, value);
    const lead = base === '' ? '' : base + ' ';
    if (context.level - level < context.compact && entries === output.length) {
      let length = output.length * 2 + context.indent + open.length + base.length + 10;
      for (let i = 0; i < output.length; i++) length += output[i].length;
      if (length <= context.width && !includes(base, '\n')) {
        const joined = join(output, ', ');
        if (!includes(joined, '\n')) return `${lead}${open} ${joined} ${close}`;
      }
    }
    const line = '\n' + repeat(' ', context.indent);
    return `${lead}${open}${line}  ${join(output, ',' + line + '  ')}${line}${close}`;
  };

  const sorted = (keys) => {
    for (let i = 1; i < keys.length; i++) {
      const key = keys[i];
      let at = i;
      for (; at > 0 && typeof keys[at - 1] === 'string' && typeof key === 'string' && keys[at - 1] > key; at--) keys[at] = keys[at - 1];
      keys[at] = key;
    }
    return keys;
  };

  // Returns the enumerable keys. With `skipIndices`, omits the integer keys, which come first in `ownKeys`.
  const enumerableKeys = (context, value, skipIndices) => {
    const keys = [];
    const all = ownKeys(value);
    let from = 0;
    if (skipIndices) for (from = all.length; from > 0 && !isIndex(all[from - 1]); ) from--;
    for (let i = from; i < all.length && keys.length < MOST_KEYS; i++) {
      if (context.isHiddenShown || isEnumerable(value, all[i])) add(keys, all[i]);
    }
    return context.isSorted ? sorted(keys) : keys;
  };

  const boxedText = (value) => {
    let primitive = slot(numberValue, value);
    if (primitive !== undefined) return `[Number: ${formatNumber(primitive)}]`;
    primitive = slot(stringValue, value);
    if (primitive !== undefined) return `[String: ${quote(primitive)}]`;
    primitive = slot(booleanValue, value);
    if (primitive !== undefined) return `[Boolean: ${primitive}]`;
    primitive = slot(symbolValue, value);
    if (primitive !== undefined) return `[Symbol: ${formatPrimitive(primitive)}]`;
    primitive = slot(bigintValue, value);
    return primitive === undefined ? undefined : `[BigInt: ${formatPrimitive(primitive)}]`;
  };

  // Returns the layout of a value: `base` before the braces, the braces, the enumerable keys, and a function for the
  // other contents of its class. Without items and keys, the base is the whole text.
  const shapeOf = (context, value, level) => {
    const name = constructorName(value);
    const shape = { base: '', open: '{', close: '}', isList: false, items: undefined, keys: undefined, empty: false };
    const list = (lead, items, length) => {
      shape.keys = length > MOST_LISTED ? [] : enumerableKeys(context, value, true);
      shape.open = lead + '[';
      shape.close = ']';
      shape.isList = true;
      shape.items = items;
      shape.empty = length === 0;
      return shape;
    };
    const braces = (fallback, items, size) => {
      shape.open = prefix(value, name, fallback, size) + '{';
      shape.items = items;
      shape.empty = size === 0;
      shape.keys = enumerableKeys(context, value, false);
      return shape;
    };
    const based = (base, skipIndices) => {
      shape.base = base;
      shape.keys = enumerableKeys(context, value, skipIndices);
      return shape;
    };
    if (isArray(value)) {
      const plain = name === 'Array' && tagOf(value, 'Array') === '';
      return list(plain ? '' : prefix(value, name, 'Array', value.length), () => arrayItems(context, value, level), value.length);
    }
    if (typeof value === 'function') return based(functionText(value, name), false);
    const kind = typedTag(value);
    if (kind !== undefined) {
      const length = typedLength(value);
      return list(prefix(value, name, kind, length), () => typedItems(context, value, length, level), length);
    }
    // Probes only for the class that the tag names, because a failed probe costs an exception. The internal slot then
    // confirms the class.
    const builtin = objectToString(value);
    switch (builtin) {
      case '[object Object]':
        shape.keys = enumerableKeys(context, value, false);
        if (name !== 'Object') shape.open = prefix(value, name, 'Object') + '{';
        return shape;
      case '[object Set]': {
        const size = slot(setSize, value);
        const item = (member) => inner(context, member, level);
        if (size !== undefined) return braces('Set', () => collectionItems(context, value, size, setForEach, item), size);
        break;
      }
      case '[object Map]': {
        const size = slot(mapSize, value);
        const item = (member, key) => `${inner(context, key, level)} => ${inner(context, member, level)}`;
        if (size !== undefined) return braces('Map', () => collectionItems(context, value, size, mapForEach, item), size);
        break;
      }
      case '[object Module]':
        shape.keys = enumerableKeys(context, value, false);
        shape.open = name === null ? '[Module: null prototype] {' : prefix(value, name, 'Object') + '{';
        return shape;
      case '[object Arguments]':
        shape.keys = enumerableKeys(context, value, false);
        shape.open = '[Arguments] {';
        return shape;
      case '[object Date]': {
        const time = slot(dateGetTime, value);
        if (time !== undefined) return based(time !== time ? dateToString(value) : dateToISO(value), false);
        break;
      }
      case '[object RegExp]': {
        const text = slot(regexpToString, value);
        if (text !== undefined) return based(text, false);
        break;
      }
      case '[object ArrayBuffer]':
      case '[object SharedArrayBuffer]': {
        const length = slot(bufferLength, value) ?? slot(sharedLength, value);
        const items = () => [`[Uint8Contents]: ${hexBytes(value, length)}`, `byteLength: ${length}`];
        if (length !== undefined) return braces(slice(builtin, 8, -1), items);
        break;
      }
      case '[object DataView]': {
        const buffer = slot(viewBuffer, value);
        const items = () => [
          `byteLength: ${viewLength(value)}`, `byteOffset: ${viewOffset(value)}`, `buffer: ${inner(context, buffer, level)}`,
        ];
        if (buffer !== undefined) return braces('DataView', items);
        break;
      }
      case '[object WeakMap]':
      case '[object WeakSet]':
        return braces(slice(builtin, 8, -1), () => ['<items unknown>']);
      case '[object WeakRef]': {
        const target = slot(weakDeref, value);
        return braces('WeakRef', () => [inner(context, target, level)]);
      }
      case '[object Promise]': {
        const state = promiseState(value);
        const items = () => [state === 0 ? '<pending>' : `${state === 2 ? '<rejected> ' : ''}${inner(context, promiseResult(value), level)}`];
        if (state >= 0) return braces('Promise', items);
        break;
      }
      case '[object Number]':
      case '[object String]':
      case '[object Boolean]':
      case '[object Symbol]':
      case '[object BigInt]': {
        const text = boxedText(value);
        if (text !== undefined) return based(text, true);
        break;
      }
    }
    if (isError(value)) {
      based(errorText(value, name), false);
      // Omits properties that the text already contains.
      const rest = [];
      for (let i = 0; i < shape.keys.length; i++) {
        const key = shape.keys[i];
        const said = key === 'name' || key === 'message' || key === 'stack' ? getOwnPropertyDescriptor(value, key).value : undefined;
        if (typeof said !== 'string' || !includes(shape.base, said)) add(rest, key);
      }
      shape.keys = rest;
      const hidden = getOwnPropertyDescriptor(value, 'cause');
      if (hidden !== undefined && !hidden.enumerable) add(shape.keys, 'cause');
      const errors = getOwnPropertyDescriptor(value, 'errors');
      if (errors !== undefined && !errors.enumerable && isArray(errors.value)) add(shape.keys, 'errors');
      if (context.indent > 0) shape.base = indented(shape.base, context.indent);
      return shape;
    }
    return braces('Object', undefined);
  };

  const position = (list, item) => {
    for (let i = 0; i < list.length; i++) if (list[i] === item) return i;
    return -1;
  };

  const formatObject = (context, value, level) => {
    const custom = value[CUSTOM];
    if (typeof custom === 'function' && custom !== inspectWith && context.calls < MOST_CALLS) {
      context.calls++;
      const options = { depth: context.depth, ...context.options, breakLength: context.width, indentationLvl: context.indent };
      const shown = call(custom, value, context.depth - level, options, inspectWith);
      if (typeof shown === 'string') return indented(shown, context.indent);
      if (shown !== value) return formatValue(context, shown, level);
    }
    if (position(context.path, value) >= 0) {
      if (position(context.circular, value) < 0) add(context.circular, value);
      return `[Circular *${position(context.circular, value) + 1}]`;
    }
    const shape = shapeOf(context, value, level + 1);
    const { keys } = shape;
    if (keys.length === 0 && (shape.items === undefined || shape.empty)) {
      return shape.base === '' ? shape.open + shape.close : shape.base;
    }
    if (level > context.depth) {
      if (isArray(value)) return '[Array]';
      const name = constructorName(value);
      return name === null ? '[Object: null prototype]' : `[${name}${tagOf(value, name)}]`;
    }
    context.level = level;
    add(context.path, value);
    const output = shape.items === undefined ? [] : shape.items();
    for (let i = 0; i < keys.length && context.spent < MOST_TEXT; i++) {
      const own = getOwnPropertyDescriptor(value, keys[i]);
      add(output, `${formatKey(keys[i], own === undefined || own.enumerable)}: ${formatProperty(context, own, level + 1)}`);
    }
    context.path.length--;
    const reference = position(context.circular, value);
    if (reference >= 0) {
      if (shape.base === '') shape.open = `<ref *${reference + 1}> ${shape.open}`;
      else shape.base = `<ref *${reference + 1}> ${shape.base}`;
    }
    return assemble(context, output, shape, level, value);
  };

  const formatValue = (context, value, level) => {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) {
      const text = formatPrimitive(value, context.strings);
      context.spent += text.length;
      return text;
    }
    if (context.spent >= MOST_TEXT) return '...';
    context.spent += 8;
    const depth = context.path.length;
    const indent = context.indent;
    try {
      return formatObject(context, value, level);
    } catch {
      // A Proxy's traps threw, or the stack is exhausted. Printing a value must not throw.
      context.path.length = depth;
      context.indent = indent;
      return typeof value === 'function' ? '[Function]' : '[Object]';
    }
  };

  const newContext = (depth) => ({
    depth, indent: 0, level: 0, path: [], circular: [], spent: 0, calls: 0, items: MOST_ITEMS, width: BREAK_LENGTH, compact: COMPACT, strings: MOST_STRING,
    isSorted: false, isHiddenShown: false, options: undefined,
  });

  // Returns the text of any value and never throws. `depth` is the number of expanded levels of objects.
  $.inspect = (value, depth) => {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return formatPrimitive(value);
    return formatValue(newContext(depth), value, 0);
  };

  const count = (number, missing) => (number === null ? Infinity : number === undefined ? missing : +number);
  // Like `inspect`, but with the options of Node's `util.inspect`, except colours and getters.
  const inspectWith = (value, options) => {
    const given = options ?? {};
    const context = newContext(count(given.depth, DEPTH));
    context.items = max(count(given.maxArrayLength, MOST_ITEMS), 0);
    context.strings = max(count(given.maxStringLength, MOST_STRING), 0);
    context.width = count(given.breakLength, BREAK_LENGTH);
    context.compact = given.compact === true ? COMPACT : given.compact === false ? 0 : count(given.compact, COMPACT);
    context.isSorted = given.sorted === true;
    context.isHiddenShown = given.showHidden === true;
    context.options = given;
    return formatValue(context, value, 0);
  };
  $.inspectWith = inspectWith;
  $.CUSTOM = CUSTOM;
  $.join = join;
}
