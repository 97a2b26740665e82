'use strict';
// `Blob` and `File`.
{
  const $ = $glovebox;
  const { bytesOf, decodeUtf8, encode } = $.encoding;

  const contents = new WeakMap();
  const joined = (parts) => {
    const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  };
  const partOf = (part) => {
    const known = typeof part === 'object' && part !== null ? contents.get(part) : undefined;
    if (known !== undefined) return known;
    return ArrayBuffer.isView(part) || part instanceof ArrayBuffer ? bytesOf(part) : encode(`${part}`);
  };

  class Blob {
    constructor(parts = [], options = {}) {
      if (typeof parts !== 'object' || parts === null || typeof parts[Symbol.iterator] !== 'function') {
        throw $.coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "sources" argument must be an instance of Iterable. Received ${$.received(parts)}`);
      }
      contents.set(this, joined(Array.from(parts, partOf)));
      const type = `${options?.type ?? ''}`;
      Object.defineProperty(this, 'type', { value: /[^ -~]/.test(type) ? '' : type.toLowerCase(), enumerable: true });
    }
    get size() {
      return contents.get(this).length;
    }
    async arrayBuffer() {
      return contents.get(this).slice().buffer;
    }
    async bytes() {
      return contents.get(this).slice();
    }
    async text() {
      return decodeUtf8(contents.get(this), false).replace(/^\ufeff/, '');
    }
    slice(start, end, type = '') {
      return new Blob([contents.get(this).slice(start, end)], { type });
    }
    get [Symbol.toStringTag]() {
      return 'Blob';
    }
    [$.CUSTOM](depth, options) {
      return `${this.constructor.name} ${$.inspectWith({ size: this.size, type: this.type }, options)}`;
    }
  }

  class File extends Blob {
    constructor(parts, name, options) {
      if (arguments.length < 2) throw $.coded(TypeError, 'ERR_MISSING_ARGS', 'The "fileBits" and "fileName" arguments must be specified');
      super(parts, options);
      Object.defineProperty(this, 'name', { value: `${name}`, enumerable: true });
      Object.defineProperty(this, 'lastModified', { value: options?.lastModified === undefined ? Date.now() : Math.trunc(options.lastModified), enumerable: true });
    }
    get [Symbol.toStringTag]() {
      return 'File';
    }
    [$.CUSTOM](depth, options) {
      return `File ${$.inspectWith({ size: this.size, type: this.type, name: this.name, lastModified: this.lastModified }, options)}`;
    }
  }
  $.blobs = { Blob, File, read: (blob) => contents.get(blob) };
  $.provide('Blob', Blob);
  $.provide('File', File);
}
