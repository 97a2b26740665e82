'use strict';
// `Buffer`, and `require('buffer')`, `require('string_decoder')`.
{
  const $ = $glovebox;
  const { coded } = $;
  const {
    bytesOf, decodeUtf16, decodeUtf8, encode, encodeInto, fromBase64, fromHex, latin1Bytes, textOf, toBase64, toHex, unitsOf, utf8Length, wholeUtf16, wholeUtf8,
  } = $.encoding;

  const LONGEST = 2 ** 31 - 1;
  const { subarray } = Uint8Array.prototype;

  const utf16Bytes = (text) => {
    const units = unitsOf(text);
    return new Uint8Array((units instanceof Uint8Array ? new Uint16Array(units) : units).buffer);
  };

  const codecs = {
    __proto__: null,
    utf8: { encode, decode: (bytes) => decodeUtf8(bytes, false) },
    utf16le: { encode: utf16Bytes, decode: decodeUtf16 },
    latin1: { encode: latin1Bytes, decode: textOf },
    ascii: { encode: latin1Bytes, decode: (bytes) => textOf(bytes.map((byte) => byte & 127)) },
    base64: { encode: fromBase64, decode: (bytes) => toBase64(bytes, false) },
    base64url: { encode: fromBase64, decode: (bytes) => toBase64(bytes, true) },
    hex: { encode: fromHex, decode: toHex },
  };
  const ALIASES = { __proto__: null, 'utf-8': 'utf8', 'utf-16le': 'utf16le', ucs2: 'utf16le', 'ucs-2': 'utf16le', binary: 'latin1' };

  const encodingName = (name) => {
    if (name === undefined || name === null || name === '') return 'utf8';
    const known = `${name}`.toLowerCase();
    const plain = ALIASES[known] ?? known;
    return plain in codecs ? plain : undefined;
  };
  const codec = (name) => {
    const known = encodingName(name);
    if (known === undefined) throw coded(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${name}`);
    return codecs[known];
  };

  const plain = (buffer) => new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
  const wrap = (bytes) => new Buffer(bytes.buffer, bytes.byteOffset, bytes.length);
  const clamp = (value, missing, most) => {
    let number = value === undefined ? missing : Math.trunc(+value) || 0;
    if (number < 0) number = 0;
    return number > most ? most : number;
  };

  class Buffer extends Uint8Array {
    constructor(value, second, third) {
      if (typeof value === 'string') super(codec(second).encode(value));
      else super(value, second, third);
    }

    static from(value, second, third) {
      if (typeof value === 'string') return wrap(codec(second).encode(value));
      if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) return new Buffer(value, second, third);
      if (typeof value === 'object' && value !== null) {
        if (value.type === 'Buffer' && Array.isArray(value.data)) return new Buffer(value.data);
        const own = typeof value.valueOf === 'function' ? value.valueOf() : value;
        if (own !== value && own !== null && own !== undefined) return Buffer.from(own, second, third);
        if (typeof value.length === 'number' || Symbol.iterator in value) return new Buffer(value);
      }
      throw coded(TypeError, 'ERR_INVALID_ARG_TYPE',
        'The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object. ' +
        `Received ${$.received(value)}`);
    }
    static of(...items) {
      return new Buffer(items);
    }
    static alloc(size, fill, encoding) {
      checkSize(size);
      const made = new Buffer(size);
      return fill === undefined || fill === 0 ? made : made.fill(fill, encoding);
    }
    static allocUnsafe(size) {
      return Buffer.alloc(size);
    }
    static allocUnsafeSlow(size) {
      return Buffer.alloc(size);
    }
    static isBuffer(value) {
      return value instanceof Buffer;
    }
    static isEncoding(name) {
      return typeof name === 'string' && name !== '' && encodingName(name) !== undefined;
    }
    static byteLength(value, encoding) {
      if (typeof value !== 'string') {
        if (!ArrayBuffer.isView(value) && !(value instanceof ArrayBuffer)) throw wrongType('string', 'of type string or an instance of Buffer or ArrayBuffer', value);
        return value.byteLength;
      }
      switch (encodingName(encoding) ?? 'utf8') {
        case 'utf8': return utf8Length(value);
        case 'utf16le': return value.length * 2;
        case 'hex': return value.length >>> 1;
        case 'base64': case 'base64url': return (value.replace(/={1,2}$/, '').length * 3) >>> 2;
        default: return value.length;
      }
    }
    static concat(list, length) {
      if (!Array.isArray(list)) throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "list" argument must be an instance of Array. Received ${$.received(list)}`);
      const wrong = list.findIndex((part) => !(part instanceof Uint8Array));
      if (wrong >= 0) throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "list[${wrong}]" argument must be an instance of Buffer or Uint8Array. Received ${$.received(list[wrong])}`);
      let total = 0;
      for (const part of list) total += part.length;
      const all = new Buffer(length ?? total);
      let at = 0;
      for (const part of list) {
        const room = all.length - at;
        all.set(part.length > room ? part.subarray(0, room) : part, at);
        at += Math.min(part.length, room);
      }
      return all;
    }
    static compare(a, b) {
      const most = Math.min(a.length, b.length);
      for (let i = 0; i < most; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
      return Math.sign(a.length - b.length);
    }

    get parent() {
      return this.buffer;
    }
    get offset() {
      return this.byteOffset;
    }
    toString(encoding, start, end) {
      const from = clamp(start, 0, this.length);
      const to = clamp(end, this.length, this.length);
      return to <= from ? '' : codec(encoding).decode(subarray.call(plain(this), from, to));
    }
    toLocaleString(encoding, start, end) {
      return this.toString(encoding, start, end);
    }
    toJSON() {
      return { type: 'Buffer', data: Array.from(this) };
    }
    equals(other) {
      if (!(other instanceof Uint8Array)) throw wrongType('otherBuffer', 'an instance of Buffer or Uint8Array', other);
      return this.length === other.length && Buffer.compare(this, other) === 0;
    }
    compare(other, otherStart = 0, otherEnd = other?.length, start = 0, end = this.length) {
      if (!(other instanceof Uint8Array)) throw wrongType('target', 'an instance of Buffer or Uint8Array', other);
      return Buffer.compare(this.subarray(start, end), other.subarray(otherStart, otherEnd));
    }
    // Shares memory with this buffer, unlike the method of typed arrays.
    slice(start, end) {
      return this.subarray(start, end);
    }
    subarray(start, end) {
      const part = subarray.call(plain(this), start, end);
      return wrap(part);
    }
    copy(target, targetStart = 0, start = 0, end = this.length) {
      if (!(target instanceof Uint8Array)) throw wrongType('target', 'an instance of Buffer or Uint8Array', target);
      const part = this.subarray(start, Math.min(end, start + Math.max(target.length - targetStart, 0)));
      target.set(part, targetStart);
      return part.length;
    }
    write(text, offset, length, encoding) {
      if (typeof offset === 'string') [offset, length, encoding] = [0, undefined, offset];
      else if (typeof length === 'string') [length, encoding] = [undefined, length];
      const start = offset ?? 0;
      if (start < 0 || start > this.length) throw outOfRange('offset', `>= 0 && <= ${this.length}`, start);
      const room = subarray.call(plain(this), start, start + Math.min(length ?? Infinity, this.length - start));
      if (encodingName(encoding) === 'utf8') return encodeInto(`${text}`, room).written;
      const bytes = codec(encoding).encode(`${text}`).subarray(0, room.length);
      room.set(bytes);
      return bytes.length;
    }
    fill(value, offset, end, encoding) {
      if (typeof offset === 'string') [offset, end, encoding] = [0, undefined, offset];
      else if (typeof end === 'string') [end, encoding] = [undefined, end];
      const from = offset ?? 0;
      const to = end ?? this.length;
      if (from < 0) throw outOfRange('offset', `>= 0 && <= ${LONGEST}`, from);
      if (to < 0 || to > this.length) throw outOfRange('end', `>= 0 && <= ${this.length}`, to);
      if (typeof value === 'number' || typeof value === 'boolean') {
        Uint8Array.prototype.fill.call(this, +value & 255, from, to);
        return this;
      }
      const bytes = typeof value === 'string' ? codec(encoding).encode(value) : value;
      if (bytes.length === 0) {
        if (value.length > 0) throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument 'value' is invalid. Received ${$.inspect(value, 0)}`);
        Uint8Array.prototype.fill.call(this, 0, from, to);
      } else for (let i = from; i < to; i++) this[i] = bytes[(i - from) % bytes.length];
      return this;
    }
    indexOf(value, start, encoding) {
      return find(this, value, start, encoding, 1);
    }
    lastIndexOf(value, start, encoding) {
      return find(this, value, start ?? this.length, encoding, -1);
    }
    includes(value, start, encoding) {
      return this.indexOf(value, start, encoding) >= 0;
    }
    swap16() {
      return swap(this, 2);
    }
    swap32() {
      return swap(this, 4);
    }
    swap64() {
      return swap(this, 8);
    }
    [$.CUSTOM]() {
      let text = '';
      for (let i = 0; i < this.length && i < 50; i++) text += (this[i] < 16 ? ' 0' : ' ') + this[i].toString(16);
      if (this.length > 50) text += ` ... ${this.length - 50} more byte${this.length > 51 ? 's' : ''}`;
      return `<${this.constructor.name}${text || ' '}>`;
    }
  }
  Buffer.poolSize = 8192;

  const outOfRange = (name, range, value) =>
    coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "${name}" is out of range. It must be ${range}. Received ${value}`);
  const wrongType = (name, expected, value) =>
    coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be ${expected}. Received ${$.received(value)}`);
  const checkSize = (size) => {
    if (typeof size !== 'number') {
      throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "size" argument must be of type number. Received ${$.received(size)}`);
    }
    if (!(size >= 0 && size <= LONGEST)) throw outOfRange('size', `>= 0 && <= ${LONGEST}`, size);
  };

  // Searches parts of increasing length, so that the time depends on the distance to the match, not on the length of the
  // buffer. Otherwise, a loop over all matches would take quadratic time.
  const findText = (bytes, wanted, at, step) => {
    for (let most = 256; ; most *= 2) {
      const from = step < 0 ? Math.max(at - most + 1, 0) : at;
      const end = step < 0 ? at + wanted.length : Math.min(at + most - 1 + wanted.length, bytes.length);
      const part = textOf(subarray.call(bytes, from, end));
      const found = step < 0 ? part.lastIndexOf(wanted) : part.indexOf(wanted);
      if (found >= 0) return from + found;
      if (step < 0 ? from === 0 : end === bytes.length) return -1;
      at += step * most;
    }
  };

  // Maximum number of positions with the needle's first byte that `find` compares. It then searches in text.
  const MOST_COMPARED = 16;
  const [indexOfByte, lastIndexOfByte] = [Uint8Array.prototype.indexOf, Uint8Array.prototype.lastIndexOf].map((method) => $.uncurry(method));
  const find = (buffer, value, start, encoding, step) => {
    if (typeof start === 'string') [start, encoding] = [undefined, start];
    const needle = typeof value === 'number' ? [value & 255] : typeof value === 'string' ? codec(encoding).encode(value) : value;
    if (needle === value && !(value instanceof Uint8Array)) throw wrongType('value', 'one of type number or string or an instance of Buffer or Uint8Array', value);
    const bytes = plain(buffer);
    const isFast = needle.length > 0;
    let at = Math.trunc(+start) || 0;
    if (at < 0) at += buffer.length;
    at = Math.min(Math.max(at, step < 0 && at < 0 ? -1 : 0), step < 0 ? buffer.length - needle.length : buffer.length);
    for (let compared = 0; at >= 0 && at + needle.length <= buffer.length; at += step) {
      if (isFast) {
        if (compared++ === MOST_COMPARED) return findText(bytes, textOf(Uint8Array.from(needle)), at, step);
        at = step < 0 ? lastIndexOfByte(bytes, needle[0], at) : indexOfByte(bytes, needle[0], at);
        if (at < 0 || at + needle.length > buffer.length) return -1;
      }
      let same = 0;
      while (same < needle.length && buffer[at + same] === needle[same]) same++;
      if (same === needle.length) return at;
    }
    return -1;
  };

  const swap = (buffer, size) => {
    if (buffer.length % size !== 0) throw coded(RangeError, 'ERR_INVALID_BUFFER_SIZE', `Buffer size must be a multiple of ${size * 8}-bits`);
    for (let i = 0; i < buffer.length; i += size) plain(buffer).subarray(i, i + size).reverse();
    return buffer;
  };

  const { prototype } = Buffer;
  const define = (name, value) => Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
  const view = (buffer) => new DataView(buffer.buffer, buffer.byteOffset, buffer.length);
  const check = (buffer, offset, size) => {
    if (typeof offset !== 'number') {
      throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "offset" argument must be of type number. Received ${$.received(offset)}`);
    }
    if (Number.isInteger(offset) && offset >= 0 && offset + size <= buffer.length) return;
    if (!Number.isInteger(offset)) throw outOfRange('offset', 'an integer', offset);
    if (buffer.length < size) throw coded(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', 'Attempt to access memory outside buffer bounds');
    throw outOfRange('offset', `>= 0 and <= ${buffer.length - size}`, offset);
  };

  const fixed = (name, size, method, least, most) => {
    for (const end of size === 1 ? [''] : ['LE', 'BE']) {
      const isLittle = end === 'LE';
      define(`read${name}${end}`, function (offset = 0) {
        check(this, offset, size);
        return view(this)[`get${method}`](offset, isLittle);
      });
      define(`write${name}${end}`, function (value, offset = 0) {
        if (least !== undefined && (value < least || value > most)) {
          const range = typeof least !== 'bigint' ? `>= ${least} and <= ${most}` : least < 0n ? '>= -(2n ** 63n) and < 2n ** 63n' : '>= 0n and < 2n ** 64n';
          throw outOfRange('value', range, typeof value === 'bigint' ? `${`${value}`.replace(/\B(?=(\d{3})+$)/g, '_')}n` : value);
        }
        check(this, offset, size);
        view(this)[`set${method}`](offset, value, isLittle);
        return offset + size;
      });
      if (name.startsWith('UInt') || name.startsWith('BigUInt')) {
        for (const verb of ['read', 'write']) define(`${verb}${name.replace('UInt', 'Uint')}${end}`, prototype[`${verb}${name}${end}`]);
      }
    }
  };
  for (const bits of [8, 16, 32]) {
    fixed(`UInt${bits}`, bits / 8, `Uint${bits}`, 0, 2 ** bits - 1);
    fixed(`Int${bits}`, bits / 8, `Int${bits}`, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1);
  }
  fixed('Float', 4, 'Float32');
  fixed('Double', 8, 'Float64');
  fixed('BigInt64', 8, 'BigInt64', -(2n ** 63n), 2n ** 63n - 1n);
  fixed('BigUInt64', 8, 'BigUint64', 0n, 2n ** 64n - 1n);

  // The methods for integers of one to six bytes.
  const checkLength = (size) => {
    if (typeof size !== 'number') throw wrongType('byteLength', 'of type number', size);
    if (!(Number.isInteger(size) && size >= 1 && size <= 6)) throw outOfRange('byteLength', Number.isInteger(size) ? '>= 1 and <= 6' : 'an integer', size);
  };
  const order = (size, isLittle) => Array.from({ length: size }, (_, i) => (isLittle ? size - 1 - i : i));
  for (const end of ['LE', 'BE']) {
    const readUInt = function (offset, size) {
      checkLength(size);
      check(this, offset, size);
      return order(size, end === 'LE').reduce((sum, at) => sum * 256 + this[offset + at], 0);
    };
    const writeInt = function (value, offset, size) {
      checkLength(size);
      check(this, offset, size);
      let left = value < 0 ? value + 2 ** (size * 8) : +value;
      for (const at of order(size, end === 'LE').reverse()) {
        this[offset + at] = left % 256;
        left = Math.floor(left / 256);
      }
      return offset + size;
    };
    define(`readUInt${end}`, readUInt);
    define(`readUint${end}`, readUInt);
    define(`readInt${end}`, function (offset, size) {
      const number = readUInt.call(this, offset, size);
      return number >= 2 ** (size * 8 - 1) ? number - 2 ** (size * 8) : number;
    });
    for (const kind of ['UInt', 'Uint', 'Int']) define(`write${kind}${end}`, writeInt);
  }

  class StringDecoder {
    #pending = Buffer.alloc(0);
    constructor(encoding) {
      codec(encoding);
      this.encoding = encodingName(encoding);
    }
    write(chunk) {
      if (typeof chunk === 'string') return chunk;
      const all = Buffer.concat([this.#pending, bytesOf(chunk)]);
      let whole = all.length;
      if (this.encoding === 'utf8') whole = wholeUtf8(all);
      else if (this.encoding === 'utf16le') whole = wholeUtf16(all, 1);
      else if (this.encoding.startsWith('base64')) whole -= whole % 3;
      this.#pending = all.subarray(whole);
      return all.toString(this.encoding, 0, whole);
    }
    end(chunk) {
      const text = chunk === undefined ? '' : this.write(chunk);
      const rest = this.#pending.toString(this.encoding);
      this.#pending = Buffer.alloc(0);
      return text + rest;
    }
  }

  $.codec = codec;
  $.node.buffer = {
    Buffer, SlowBuffer: Buffer, atob: $.encoding.atob, btoa: $.encoding.btoa, kMaxLength: LONGEST, kStringMaxLength: 2 ** 30 - 1,
    constants: { MAX_LENGTH: LONGEST, MAX_STRING_LENGTH: 2 ** 30 - 1 },
    isUtf8: (bytes) => {
      try {
        decodeUtf8(bytesOf(bytes), true);
        return true;
      } catch {
        return false;
      }
    },
    isAscii: (bytes) => bytesOf(bytes).every((byte) => byte < 128),
  };
  for (const name of ['Blob', 'File']) $.lazily($.node.buffer, name, () => $.blobs[name], true);
  $.node.string_decoder = { StringDecoder };
  $.provide('Buffer', Buffer);
}
