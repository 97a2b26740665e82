'use strict';
// Text as bytes: `TextEncoder`, `TextDecoder`, base64 and hex.
{
  const $ = $glovebox;
  const { bjson, coded } = $;

  // The conversions combine native functions of the interpreter, which are 5 to 30 times as fast as loops over units.
  // `bjson` copies a text's units, which follow `HEAD` and the length: twice the number of units, plus one if they have
  // 16 bits. If all bits of the checksum in bytes 1 to 4 are set, `bjson.read` does not check it. Only the newer build
  // has a checksum.
  const HEAD = new Uint8Array(bjson.write('')).slice(0, -1);
  if (HEAD.length > 4) HEAD.fill(255, 1, 5);
  // Minimum length for which native functions are faster.
  const FEW = 24;
  // Maximum number of units that are encoded at once, and of bytes that are decoded at once: invalid bytes make a part
  // slow.
  const MOST_ENCODED = 16384;
  const MOST_DECODED = 2048;
  const { escape, unescape, decodeURIComponent, encodeURIComponent } = globalThis;

  // Returns the text whose units are the elements of an array of bytes or 16-bit integers.
  const textOf = (units) => {
    const wide = units.BYTES_PER_ELEMENT - 1;
    const head = [];
    let length = units.length * 2 + wide;
    for (; length > 127; length = Math.floor(length / 128)) head.push((length & 127) | 128);
    head.push(length);
    const start = HEAD.length + head.length;
    const all = new Uint8Array(start + units.byteLength);
    all.set(HEAD);
    all.set(head, HEAD.length);
    all.set(new Uint8Array(units.buffer, units.byteOffset, units.byteLength), start);
    const text = bjson.read(all.buffer, 0, all.length);
    // The interpreter stores text without larger units as bytes.
    return wide === 0 || /[^\0-\xff]/.test(text) ? text : textOf(new Uint8Array(units));
  };

  // Returns the units of a text as bytes, or as 16-bit integers if the interpreter stores them as such.
  const unitsOf = (text) => {
    const all = new Uint8Array(bjson.write(text));
    const isWide = (all[HEAD.length] & 1) === 1;
    const bytes = all.slice(all.length - text.length * (isWide ? 2 : 1));
    return isWide ? new Uint16Array(bytes.buffer) : bytes;
  };

  const latin1Bytes = (text) => {
    const units = unitsOf(text);
    return units instanceof Uint8Array ? units : new Uint8Array(units);
  };

  // Returns the index after `from` at which the next part of a text ends, outside surrogate pairs.
  const partEnd = (text, from, most) => {
    const end = Math.min(from + most, text.length);
    const isInPair = end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800 && (text.charCodeAt(end) & 0xfc00) === 0xdc00;
    return isInPair && end - 1 > from ? end - 1 : isInPair ? end + 1 : end;
  };

  // Returns the UTF-8 form of a part as Latin-1 text.
  const utf8Text = (part) => unescape(encodeURIComponent(part.toWellFormed()));

  const utf8Length = (text) => {
    if (text.length < FEW) return shortLength(text);
    let length = 0;
    for (let from = 0; from < text.length; ) {
      const end = partEnd(text, from, MOST_ENCODED);
      const part = text.slice(from, end);
      if (part.length < FEW) length += shortLength(part);
      else length += /[^\0-\x7f]/.test(part) ? utf8Text(part).length : part.length;
      from = end;
    }
    return length;
  };

  const shortLength = (text) => {
    let length = text.length;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (unit < 0x80) continue;
      length += unit < 0x800 ? 1 : 2;
      if (unit >= 0xd800 && unit < 0xdc00 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) i++;
    }
    return length;
  };

  // Writes as many whole characters as fit. `read` counts UTF-16 units. Lone surrogates become U+FFFD.
  const encodeInto = (text, bytes) => {
    let read = 0;
    let written = 0;
    while (text.length - read >= FEW && bytes.length - written >= FEW) {
      const end = partEnd(text, read, Math.min(MOST_ENCODED, bytes.length - written));
      const part = latin1Bytes(utf8Text(text.slice(read, end)));
      if (part.length > bytes.length - written) break;
      bytes.set(part, written);
      read = end;
      written += part.length;
    }
    for (; read < text.length; read++) {
      let code = text.charCodeAt(read);
      if (code < 0x80) {
        if (written >= bytes.length) break;
        bytes[written++] = code;
        continue;
      }
      const isPair = (code & 0xfc00) === 0xd800 && (text.charCodeAt(read + 1) & 0xfc00) === 0xdc00;
      if (isPair) code = text.codePointAt(read);
      else if ((code & 0xf800) === 0xd800) code = 0xfffd;
      const more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      if (written + more >= bytes.length) break;
      bytes[written++] = [0, 0xc0, 0xe0, 0xf0][more] | (code >> (6 * more));
      for (let left = more - 1; left >= 0; left--) bytes[written++] = 0x80 | ((code >> (6 * left)) & 63);
      if (isPair) read++;
    }
    return { read, written };
  };

  const encodeShort = (text) => {
    const bytes = new Uint8Array(shortLength(text));
    encodeInto(text, bytes);
    return bytes;
  };

  const encode = (text) => {
    if (text.length < FEW) return encodeShort(text);
    const parts = [];
    let length = 0;
    for (let from = 0; from < text.length; ) {
      const end = partEnd(text, from, MOST_ENCODED);
      const part = text.slice(from, end);
      const bytes = part.length < FEW ? encodeShort(part) : latin1Bytes(utf8Text(part));
      parts.push(bytes);
      length += bytes.length;
      from = end;
    }
    if (parts.length === 1) return parts[0];
    const all = new Uint8Array(length);
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  };

  // Returns the index of an incomplete character at the end, or the length if the last character is complete.
  const wholeUtf8 = (bytes) => {
    const end = bytes.length;
    for (let back = 1; back <= 3 && back <= end; back++) {
      const byte = bytes[end - back];
      if ((byte & 0xc0) === 0x80) continue;
      const need = byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
      return byte < 0xf5 && need > back ? end - back : end;
    }
    return end;
  };

  // The range of a UTF-8 character's second byte, by its first byte.
  const lowest = (first) => (first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80);
  const highest = (first) => (first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf);

  const invalid = (name) => coded(TypeError, 'ERR_ENCODING_INVALID_ENCODED_DATA', `The encoded data was not valid for encoding ${name}`);

  // Like the Encoding Standard, decodes each invalid byte and each truncated character as one U+FFFD.
  const decodeUtf8 = (bytes, isFatal) => {
    if (bytes.length < FEW) return decodeBytes(bytes, isFatal);
    let text = '';
    for (let from = 0; from < bytes.length; ) {
      const most = Math.min(from + MOST_DECODED, bytes.length);
      let end = most;
      // Ends a part before a character. A continuation byte after three others belongs to no character.
      for (let back = 0; back < 3 && isContinued(bytes[end]); back++) end--;
      if (isContinued(bytes[end])) end = most;
      text += decodePart(bytes.subarray(from, end), isFatal);
      from = end;
    }
    return text;
  };

  const isContinued = (byte) => (byte & 0xc0) === 0x80;

  const decodePart = (part, isFatal) => {
    const raw = textOf(part);
    if (!/[^\0-\x7f]/.test(raw)) return raw;
    try {
      return decodeURIComponent(escape(raw));
    } catch {
      return decodeBytes(part, isFatal);
    }
  };

  const decodeBytes = (bytes, isFatal) => {
    const isShort = bytes.length < FEW;
    const units = isShort ? [] : new Uint16Array(bytes.length);
    let count = 0;
    for (let at = 0; at < bytes.length; ) {
      const byte = bytes[at++];
      if (byte < 0x80) {
        units[count++] = byte;
        continue;
      }
      let need = byte >= 0xc2 && byte < 0xe0 ? 1 : byte >= 0xe0 && byte < 0xf0 ? 2 : byte >= 0xf0 && byte < 0xf5 ? 3 : 0;
      let code = need === 0 ? -1 : byte & (0x3f >> need);
      let lower = lowest(byte);
      let upper = highest(byte);
      for (; need > 0; need--) {
        const next = bytes[at];
        if (!(next >= lower && next <= upper)) {
          code = -1;
          break;
        }
        lower = 0x80;
        upper = 0xbf;
        code = (code << 6) | (next & 63);
        at++;
      }
      if (code < 0) {
        if (isFatal) throw invalid('utf-8');
        units[count++] = 0xfffd;
      } else if (code < 0x10000) units[count++] = code;
      else {
        units[count++] = 0xd7c0 + (code >> 10);
        units[count++] = 0xdc00 + (code & 0x3ff);
      }
    }
    return isShort ? String.fromCharCode.apply(undefined, units) : textOf(units.subarray(0, count));
  };

  const decodeUtf16 = (bytes) => textOf(new Uint16Array(bytes.slice(0, bytes.length & ~1).buffer));

  // Returns the index of an incomplete unit or surrogate pair at the end, or the length. `first` is the offset of the
  // unit's high byte: 0 in big-endian text, 1 in little-endian text.
  const wholeUtf16 = (bytes, first) => {
    const end = bytes.length & ~1;
    return end > 0 && (bytes[end - 2 + first] & 0xfc) === 0xd8 ? end - 2 : end;
  };

  // Swaps the bytes of each unit.
  const swapped = (bytes) => bytes.map((_, i) => bytes[i ^ 1] ?? 0);
  // Like `decodeUtf16`, but with U+FFFD for each lone surrogate and for an incomplete unit at the end.
  const decodeWellFormed = (bytes, name, isFatal) => {
    const text = decodeUtf16(name === 'utf-16be' ? swapped(bytes) : bytes);
    const isCut = bytes.length % 2 === 1;
    if (isFatal && (isCut || !text.isWellFormed())) throw invalid(name);
    // A high surrogate and an incomplete unit after it are one error.
    const isCounted = (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800;
    return text.toWellFormed() + (isCut && !isCounted ? '\ufffd' : '');
  };

  const WINDOWS = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';
  const decodeWindows = (bytes) => textOf(bytes).replace(/[\x80-\x9f]/g, (unit) => WINDOWS[unit.charCodeAt(0) - 0x80]);

  const bytesOf = (source) => {
    if (source === undefined) return new Uint8Array();
    if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    if (source instanceof ArrayBuffer || source instanceof SharedArrayBuffer) return new Uint8Array(source);
    throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "list" argument must be an instance of SharedArrayBuffer, ArrayBuffer or ArrayBufferView.');
  };

  const concat = (first, second) => {
    if (first.length === 0) return second;
    const both = new Uint8Array(first.length + second.length);
    both.set(first);
    both.set(second, first.length);
    return both;
  };

  // The labels of the common encodings, by name.
  const LABELS = {
    __proto__: null,
    'utf-8': 'unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8',
    'utf-16le': 'csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le',
    'utf-16be': 'unicodefffe utf-16be',
    'windows-1252': 'ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252',
  };
  const NAMES = { __proto__: null };
  for (const name of Object.keys(LABELS)) for (const label of LABELS[name].split(' ')) NAMES[label] = name;

  class TextEncoder {
    get encoding() {
      return 'utf-8';
    }
    encode(text = '') {
      return encode(`${text}`);
    }
    encodeInto(text, bytes) {
      return encodeInto(`${text}`, bytes);
    }
  }

  class TextDecoder {
    #pending = new Uint8Array();
    #isStarted = false;
    #legacy;
    constructor(label = 'utf-8', options = {}) {
      const plain = `${label}`.replace(/^[\t\n\f\r ]+|[\t\n\f\r ]+$/g, '').toLowerCase();
      if (NAMES[plain] === undefined) this.#legacy = $.legacy(plain, `${label}`);
      const encoding = NAMES[plain] ?? this.#legacy.name;
      const { fatal = false, ignoreBOM = false } = options ?? {};
      Object.assign(Object.defineProperties(this, Object.fromEntries(['encoding', 'fatal', 'ignoreBOM'].map((name) => [name, { writable: true, enumerable: true }]))), {
        encoding, fatal: Boolean(fatal), ignoreBOM: Boolean(ignoreBOM),
      });
    }
    decode(source, options) {
      const goesOn = Boolean(options?.stream);
      if (this.#legacy?.decodeNext !== undefined) return this.#legacy.decodeNext(bytesOf(source), this.fatal, goesOn);
      const bytes = concat(this.#pending, bytesOf(source));
      // Cleared before decoding, so that a call that throws leaves no bytes for the next call.
      this.#pending = new Uint8Array();
      const isUtf8 = this.encoding === 'utf-8';
      const isUtf16 = this.encoding === 'utf-16le' || this.encoding === 'utf-16be';
      let whole = bytes.length;
      if (goesOn && isUtf16) whole = wholeUtf16(bytes, this.encoding === 'utf-16be' ? 0 : 1);
      else if (goesOn && isUtf8) {
        const start = wholeUtf8(bytes);
        // The last character is incomplete only if its second byte is missing or valid.
        if (start + 1 >= whole || (bytes[start + 1] >= lowest(bytes[start]) && bytes[start + 1] <= highest(bytes[start]))) whole = start;
      }
      const complete = bytes.subarray(0, whole);
      let text;
      if (isUtf8) text = decodeUtf8(complete, this.fatal);
      else if (isUtf16) text = decodeWellFormed(complete, this.encoding, this.fatal);
      else text = this.#legacy === undefined ? decodeWindows(complete) : this.#legacy.decode(textOf(complete), this.fatal);
      this.#pending = bytes.slice(whole);
      const isMarked = !this.#isStarted && !this.ignoreBOM && (isUtf8 || isUtf16) && text[0] === '\ufeff';
      this.#isStarted = goesOn && (this.#isStarted || text !== '');
      return isMarked ? text.slice(1) : text;
    }
  }

  const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const URL64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const VALUES = new Uint8Array(128).fill(64);
  for (let i = 0; i < 64; i++) VALUES[BASE64.charCodeAt(i)] = VALUES[URL64.charCodeAt(i)] = i;

  // The older build has no native functions for base64 and hexadecimal digits.
  const [nativeToBase64, nativeToHex] = ['toBase64', 'toHex'].map((name) => {
    const method = Uint8Array.prototype[name];
    return method === undefined ? undefined : $.uncurry(method);
  });
  const { fromBase64: nativeFromBase64, fromHex: nativeFromHex } = Uint8Array;
  // Calls a native function, which throws if a text is not strictly valid. Returns `undefined` in this case.
  const strictly = (decode, text) => {
    if (decode === undefined || text.length < FEW) return undefined;
    try {
      return decode.call(Uint8Array, text);
    } catch {
      return undefined;
    }
  };

  const toBase64 = (bytes, forUrls) => {
    if (nativeToBase64 !== undefined) return nativeToBase64(bytes, forUrls ? { alphabet: 'base64url', omitPadding: true } : {});
    const digits = forUrls ? URL64 : BASE64;
    let text = '';
    let at = 0;
    for (; at + 2 < bytes.length; at += 3) {
      const three = (bytes[at] << 16) | (bytes[at + 1] << 8) | bytes[at + 2];
      text += digits[three >> 18] + digits[(three >> 12) & 63] + digits[(three >> 6) & 63] + digits[three & 63];
    }
    if (at === bytes.length) return text;
    const rest = (bytes[at] << 16) | ((bytes[at + 1] ?? 0) << 8);
    text += digits[rest >> 18] + digits[(rest >> 12) & 63];
    if (at + 1 < bytes.length) text += digits[(rest >> 6) & 63];
    return forUrls ? text : text.padEnd((text.length + 3) & ~3, '=');
  };

  // Characters outside both alphabets are skipped, as in Node.
  const fromBase64 = (text) => {
    const whole = strictly(nativeFromBase64, text.replaceAll('-', '+').replaceAll('_', '/'));
    if (whole !== undefined) return whole;
    const bytes = new Uint8Array((text.length * 3 + 3) >> 2);
    let length = 0;
    let bits = 0;
    let held = 0;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code === 61) break;
      const value = code < 128 ? VALUES[code] : 64;
      if (value === 64) continue;
      held = (held << 6) | value;
      bits += 6;
      if (bits >= 8) {
        bits -= 8;
        bytes[length++] = held >> bits;
      }
    }
    return bytes.slice(0, length);
  };

  const toHex = (bytes) => {
    if (nativeToHex !== undefined) return nativeToHex(bytes);
    let text = '';
    for (let i = 0; i < bytes.length; i++) text += (bytes[i] < 16 ? '0' : '') + bytes[i].toString(16);
    return text;
  };

  const fromHex = (text) => {
    const whole = strictly(nativeFromHex, text);
    if (whole !== undefined) return whole;
    const bytes = new Uint8Array(text.length >> 1);
    for (let i = 0; i < bytes.length; i++) {
      const two = text.slice(i * 2, i * 2 + 2);
      if (!/^[0-9a-f]{2}$/i.test(two)) return bytes.slice(0, i);
      bytes[i] = parseInt(two, 16);
    }
    return bytes;
  };

  const notLatin1 = (text) => {
    for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 255) return true;
    return false;
  };

  const base64 = {
    btoa(text) {
      const all = `${text}`;
      if (notLatin1(all)) throw new DOMException('Invalid character', 'InvalidCharacterError');
      return toBase64(latin1Bytes(all), false);
    },
    atob(text) {
      let all = `${text}`.replace(/[\t\n\f\r ]/g, '');
      if (all.length % 4 === 0) all = all.replace(/==?$/, '');
      if (all.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(all)) {
        throw new DOMException('The string to be decoded is not correctly encoded.', 'InvalidCharacterError');
      }
      return textOf(fromBase64(all));
    },
  };

  $.encoding = {
    __proto__: null, bytesOf, decodeUtf16, decodeUtf8, encode, encodeInto, fromBase64, fromHex, invalid, latin1Bytes, toBase64,
    textOf, toHex, unitsOf, utf8Length, wholeUtf16, wholeUtf8, TextDecoder, TextEncoder, ...base64,
  };
  $.provide('TextEncoder', TextEncoder);
  $.provide('TextDecoder', TextDecoder);
  $.provide('btoa', base64.btoa);
  $.provide('atob', base64.atob);
}
