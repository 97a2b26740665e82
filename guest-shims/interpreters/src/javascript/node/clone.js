'use strict';
// `structuredClone`.
{
  const $ = $glovebox;

  const ERRORS = ['EvalError', 'RangeError', 'ReferenceError', 'SyntaxError', 'TypeError', 'URIError'];
  const refuse = (value) => {
    const text = typeof value === 'function' ? String(value) : typeof value === 'symbol' ? String(value) : `#<${value.constructor?.name ?? 'Object'}>`;
    throw new DOMException(`${text} could not be cloned.`, 'DataCloneError');
  };
  const typed = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;

  const clone = (value, seen) => {
    if (typeof value === 'function' || typeof value === 'symbol') refuse(value);
    if (typeof value !== 'object' || value === null) return value;
    if (seen.has(value)) return seen.get(value);
    const keep = (made) => {
      seen.set(value, made);
      return made;
    };
    if (ArrayBuffer.isView(value)) {
      const buffer = clone(value.buffer, seen);
      const kind = typed.call(value) ?? 'DataView';
      return keep(new globalThis[kind](buffer, value.byteOffset, kind === 'DataView' ? value.byteLength : value.length));
    }
    const tag = Object.prototype.toString.call(value).slice(8, -1);
    if (tag.startsWith('Intl.')) refuse(value);
    switch (tag) {
      case 'Date': return keep(new Date(value.getTime()));
      case 'RegExp': return keep(new RegExp(value.source, value.flags));
      case 'Boolean': case 'Number': case 'String': case 'BigInt': return keep(Object(value.valueOf()));
      case 'ArrayBuffer': return keep(value.slice(0));
      case 'Map': {
        const made = keep(new Map());
        for (const [key, item] of [...value]) made.set(clone(key, seen), clone(item, seen));
        return made;
      }
      case 'Set': {
        const made = keep(new Set());
        for (const item of [...value]) made.add(clone(item, seen));
        return made;
      }
      case 'Error': {
        const name = ERRORS.includes(value.name) ? value.name : 'Error';
        const made = keep(Object.create(globalThis[name].prototype));
        const copied = new globalThis[name](value.message);
        Object.defineProperty(copied, 'stack', { value: value.stack, writable: true, configurable: true });
        if (Object.hasOwn(value, 'cause')) Object.defineProperty(copied, 'cause', { value: clone(value.cause, seen), writable: true, configurable: true });
        seen.set(value, copied);
        return made && copied;
      }
      case 'Symbol': case 'WeakMap': case 'WeakSet': case 'WeakRef': case 'Promise': case 'Generator': case 'SharedArrayBuffer':
        return refuse(value);
    }
    const made = keep(Array.isArray(value) ? new Array(value.length) : {});
    for (const key of Object.keys(value)) {
      Object.defineProperty(made, key, { value: clone(value[key], seen), writable: true, enumerable: true, configurable: true });
    }
    return made;
  };

  const functions = {
    structuredClone(value, options) {
      if (arguments.length === 0) throw $.coded(TypeError, 'ERR_MISSING_ARGS', 'The "value" argument must be specified');
      const made = clone(value, new Map());
      for (const buffer of options?.transfer ?? []) if (buffer instanceof ArrayBuffer) buffer.transfer();
      return made;
    },
  };
  $.provide('structuredClone', functions.structuredClone);
}
