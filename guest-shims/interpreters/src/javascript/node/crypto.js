'use strict';
// `require('crypto')`: hashes, random values and comparisons. Ciphers, keys and signatures are not available.
{
  const $ = $glovebox;
  const { coded } = $;
  const { bytesOf } = $.encoding;

  const primes = (count) => {
    const found = [];
    for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n);
    return found;
  };
  // Returns the first 64 bits of the fractional part of a prime's root as two words. These are the constants of SHA-2.
  const fraction = (prime, power) => {
    // floor(prime^(1/power) * 2^64) by Newton's method on integers.
    const target = BigInt(prime) << BigInt(64 * power);
    const n = BigInt(power);
    let root = 1n << 68n;
    for (;;) {
      const next = ((n - 1n) * root + target / root ** (n - 1n)) / n;
      if (next >= root) break;
      root = next;
    }
    return [Number((root >> 32n) & 0xffffffffn) | 0, Number(root & 0xffffffffn) | 0];
  };
  const roots = (count, power) => primes(count).flatMap((prime) => fraction(prime, power));
  const K512 = new Int32Array(roots(80, 3));
  const K256 = K512.filter((_, i) => i % 2 === 0).slice(0, 64);
  const H512 = new Int32Array(roots(8, 2));
  const H256 = H512.filter((_, i) => i % 2 === 0);
  const H384 = new Int32Array(roots(16, 2).slice(16));
  const H224 = H384.filter((_, i) => i % 2 === 1);
  const KMD5 = Int32Array.from({ length: 64 }, (_, i) => Math.floor(Math.abs(Math.sin(i + 1)) * 2 ** 32));
  const H160 = new Int32Array([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0]);
  const TURNS = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

  const left = (word, by) => (word << by) | (word >>> (32 - by));
  const right = (word, by) => (word >>> by) | (word << (32 - by));

  const md5 = (state, words) => {
    let [a, b, c, d] = state;
    for (let i = 0; i < 64; i++) {
      const round = i >> 4;
      const f = round === 0 ? (b & c) | (~b & d) : round === 1 ? (d & b) | (~d & c) : round === 2 ? b ^ c ^ d : c ^ (b | ~d);
      const at = [i, 5 * i + 1, 3 * i + 5, 7 * i][round] & 15;
      const sum = (a + f + KMD5[i] + words[at]) | 0;
      a = d;
      d = c;
      c = b;
      b = (b + left(sum, TURNS[round][i & 3])) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
  };

  const schedule = new Int32Array(160);
  const sha1 = (state, words) => {
    const w = schedule;
    let [a, b, c, d, e] = state;
    for (let i = 0; i < 80; i++) {
      w[i] = i < 16 ? words[i] : left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
      const f = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
      const k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
      const sum = (left(a, 5) + f + e + k + w[i]) | 0;
      e = d;
      d = c;
      c = left(b, 30);
      b = a;
      a = sum;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
  };

  const sha256 = (state, words) => {
    const w = schedule;
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      if (i < 16) w[i] = words[i];
      else {
        const x = w[i - 15];
        const y = w[i - 2];
        w[i] = (right(x, 7) ^ right(x, 18) ^ (x >>> 3)) + w[i - 7] + (right(y, 17) ^ right(y, 19) ^ (y >>> 10)) + w[i - 16];
      }
      const one = (h + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & f) ^ (~e & g)) + K256[i] + w[i]) | 0;
      const two = ((right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
  };

  // A 64-bit word is a pair of 32-bit words, high first. `high` and `low` return the halves of the pair after rotating
  // it right by `by` bits.
  const high = (h, l, by) => (by < 32 ? (h >>> by) | (l << (32 - by)) : (l >>> (by - 32)) | (h << (64 - by)));
  const low = (h, l, by) => high(l, h, by);
  const sha512 = (state, words) => {
    const w = schedule;
    const v = Int32Array.from(state);
    // Sums of low words stay exact in doubles, and the carry goes to the high word.
    const put = (into, at, h, l) => {
      into[at] = h + Math.floor(l / 2 ** 32);
      into[at + 1] = l;
    };
    for (let i = 0; i < 160; i += 2) {
      if (i < 32) {
        w[i] = words[i];
        w[i + 1] = words[i + 1];
      } else {
        const [xh, xl, yh, yl] = [w[i - 30], w[i - 29], w[i - 4], w[i - 3]];
        const s0h = high(xh, xl, 1) ^ high(xh, xl, 8) ^ (xh >>> 7);
        const s0l = low(xh, xl, 1) ^ low(xh, xl, 8) ^ ((xl >>> 7) | (xh << 25));
        const s1h = high(yh, yl, 19) ^ high(yh, yl, 61) ^ (yh >>> 6);
        const s1l = low(yh, yl, 19) ^ low(yh, yl, 61) ^ ((yl >>> 6) | (yh << 26));
        put(w, i, s0h + w[i - 14] + s1h + w[i - 32], (s0l >>> 0) + (w[i - 13] >>> 0) + (s1l >>> 0) + (w[i - 31] >>> 0));
      }
      const [ah, al, bh, bl, ch, cl] = v;
      const [eh, el, fh, fl, gh, gl] = [v[8], v[9], v[10], v[11], v[12], v[13]];
      const oneH = v[14] + (high(eh, el, 14) ^ high(eh, el, 18) ^ high(eh, el, 41)) + ((eh & fh) ^ (~eh & gh)) + K512[i] + w[i];
      const oneL = (v[15] >>> 0) + ((low(eh, el, 14) ^ low(eh, el, 18) ^ low(eh, el, 41)) >>> 0) + (((el & fl) ^ (~el & gl)) >>> 0) + (K512[i + 1] >>> 0) + (w[i + 1] >>> 0);
      const twoH = (high(ah, al, 28) ^ high(ah, al, 34) ^ high(ah, al, 39)) + ((ah & bh) ^ (ah & ch) ^ (bh & ch));
      const twoL = ((low(ah, al, 28) ^ low(ah, al, 34) ^ low(ah, al, 39)) >>> 0) + (((al & bl) ^ (al & cl) ^ (bl & cl)) >>> 0);
      v.copyWithin(2, 0, 14);
      put(v, 8, v[8] + oneH, (v[9] >>> 0) + oneL);
      put(v, 0, oneH + twoH, oneL + twoL);
    }
    for (let i = 0; i < 16; i += 2) put(state, i, state[i] + v[i], (state[i + 1] >>> 0) + (v[i + 1] >>> 0));
  };

  const ALGORITHMS = {
    __proto__: null,
    md5: { step: md5, start: H160.slice(0, 4), block: 64, length: 16, isLittle: true },
    sha1: { step: sha1, start: H160, block: 64, length: 20 },
    sha224: { step: sha256, start: H224, block: 64, length: 28 },
    sha256: { step: sha256, start: H256, block: 64, length: 32 },
    sha384: { step: sha512, start: H384, block: 128, length: 48 },
    sha512: { step: sha512, start: H512, block: 128, length: 64 },
  };
  const digestName = (name) => `${name}`.toLowerCase().replace(/^sha-/, 'sha');
  const algorithm = (name) => {
    const known = ALGORITHMS[digestName(name)];
    if (known !== undefined) return known;
    throw coded(Error, 'ERR_CRYPTO_INVALID_DIGEST', `Digest method not supported: ${name}; supported: ${Object.keys(ALGORITHMS).join(', ')}`);
  };

  // A hash in progress: the bytes of an unfinished block, and the state after the earlier blocks.
  class Running {
    constructor({ step, start, block, length, isLittle = false }) {
      Object.assign(this, { step, block, length, isLittle, state: Int32Array.from(start), rest: new Uint8Array(block), filled: 0, total: 0 });
      this.words = new Int32Array(block / 4);
    }
    add(bytes) {
      this.total += bytes.length;
      let at = 0;
      while (at < bytes.length) {
        const some = bytes.subarray(at, at + this.block - this.filled);
        this.rest.set(some, this.filled);
        this.filled += some.length;
        at += some.length;
        if (this.filled === this.block) this.take();
      }
    }
    take() {
      const view = new DataView(this.rest.buffer);
      for (let i = 0; i < this.words.length; i++) this.words[i] = view.getInt32(i * 4, this.isLittle);
      this.step(this.state, this.words);
      this.filled = 0;
    }
    end() {
      const bits = this.total * 8;
      this.add(Uint8Array.of(0x80));
      // The length field takes an eighth of a block. Its high bytes are always zero here.
      const end = this.block - this.block / 8;
      while (this.filled !== end) this.add(new Uint8Array(this.filled < end ? end - this.filled : this.block - this.filled));
      const tail = new DataView(new ArrayBuffer(this.block / 8));
      const low = this.isLittle ? 0 : tail.byteLength - 4;
      tail.setUint32(this.isLittle ? 4 : low - 4, Math.floor(bits / 2 ** 32), this.isLittle);
      tail.setUint32(low, bits % 2 ** 32, this.isLittle);
      this.add(new Uint8Array(tail.buffer));
      const out = new DataView(new ArrayBuffer(this.state.length * 4));
      this.state.forEach((word, i) => out.setInt32(i * 4, word, this.isLittle));
      return new Uint8Array(out.buffer).slice(0, this.length);
    }
    copy() {
      const made = Object.assign(Object.create(Running.prototype), this);
      return Object.assign(made, { state: this.state.slice(), rest: this.rest.slice(), words: this.words.slice() });
    }
  }
  const hashOf = (kind, ...parts) => {
    const running = new Running(kind);
    for (const part of parts) running.add(part);
    return running.end();
  };

  const dataBytes = (data, encoding, name = 'data') => {
    if (typeof data === 'string') return $.codec(encoding).encode(data);
    if (ArrayBuffer.isView(data) || data instanceof ArrayBuffer) return bytesOf(data);
    throw coded(TypeError, 'ERR_INVALID_ARG_TYPE',
      `The "${name}" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${$.received(data)}`);
  };
  const shownAs = (bytes, encoding) => {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    return encoding === undefined || encoding === 'buffer' ? buffer : buffer.toString(encoding);
  };

  class Hash {
    #running;
    #finish;
    constructor(running, finish) {
      this.#running = running;
      this.#finish = finish;
    }
    update(data, encoding) {
      if (this.#running === undefined) throw coded(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
      this.#running.add(dataBytes(data, encoding));
      return this;
    }
    digest(encoding) {
      if (this.#running === undefined) throw coded(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
      const bytes = this.#finish(this.#running.end());
      this.#running = undefined;
      return shownAs(bytes, encoding);
    }
    copy() {
      return new Hash(this.#running.copy(), this.#finish);
    }
  }
  class Hmac extends Hash {}

  const createHash = (name) => new Hash(new Running(algorithm(name)), (bytes) => bytes);
  const padded = (kind, key) => {
    const long = dataBytes(key, 'utf8', 'key');
    const pad = new Uint8Array(kind.block);
    pad.set(long.length > kind.block ? hashOf(kind, long) : long);
    return pad;
  };
  const createHmac = (name, key) => {
    const kind = algorithm(name);
    const pad = padded(kind, key);
    const running = new Running(kind);
    running.add(pad.map((byte) => byte ^ 0x36));
    return new Hmac(running, (bytes) => hashOf(kind, pad.map((byte) => byte ^ 0x5c), bytes));
  };
  const hmac = (kind, pad, data) => hashOf(kind, pad.map((byte) => byte ^ 0x5c), hashOf(kind, pad.map((byte) => byte ^ 0x36), data));

  // Uses the interpreter's generator with the sandbox's 64-bit seed, so a seeded policy makes the values reproducible.
  const { random } = Math;
  const fillRandom = (bytes) => {
    for (let i = 0; i < bytes.length; i++) bytes[i] = random() * 256;
    return bytes;
  };
  const later = (value, callback) => {
    if (typeof callback !== 'function') throw $.functionError('callback', callback);
    queueMicrotask(() => callback(null, value));
  };
  const nowOrLater = (value, callback) => (callback === undefined ? value : later(value, callback));
  const randomInt = (least, most, callback) => {
    const onlyMost = most === undefined || typeof most === 'function';
    if (onlyMost) [least, most, callback] = [0, least, most];
    if (callback !== undefined && typeof callback !== 'function') throw $.functionError('callback', callback);
    for (const [name, value] of [['min', least], ['max', most]]) {
      if (!Number.isSafeInteger(value)) throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be a safe integer. Received ${$.received(value)}`);
    }
    if (most <= least) {
      throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "max" is out of range. It must be greater than the value of "min" (${least}). Received ${most}`);
    }
    const range = most - least;
    if (range >= 2 ** 48) {
      const received = String(range).replace(/\B(?=(\d{3})+$)/g, '_');
      throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "max${onlyMost ? '' : ' - min'}" is out of range. It must be <= ${2 ** 48 - 1}. Received ${received}`);
    }
    // Draws again if a value would make some numbers of the range more likely.
    const fair = 2 ** 48 - (2 ** 48 % range);
    for (;;) {
      const drawn = crypto.randomBytes(6).readUIntBE(0, 6);
      if (drawn < fair) return nowOrLater(least + (drawn % range), callback);
    }
  };

  const pbkdf2Sync = (password, salt, rounds, length, digest) => {
    const kind = algorithm(digest);
    if (!(rounds >= 1)) throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "iterations" is out of range. It must be >= 1 && <= 2147483647. Received ${$.inspect(rounds, 0)}`);
    const pad = padded(kind, password);
    const begin = dataBytes(salt, 'utf8', 'salt');
    const out = Buffer.alloc(length);
    for (let at = 0, block = 1; at < length; at += kind.length, block++) {
      const first = new Uint8Array(begin.length + 4);
      first.set(begin);
      new DataView(first.buffer).setUint32(begin.length, block);
      let last = hmac(kind, pad, first);
      const sum = last.slice();
      for (let i = 1; i < rounds; i++) {
        last = hmac(kind, pad, last);
        for (let j = 0; j < sum.length; j++) sum[j] ^= last[j];
      }
      out.set(sum.subarray(0, Math.min(kind.length, length - at)), at);
    }
    return out;
  };

  // The host derives the key, because an interpreter would take minutes. The device's limits are in `guest-shims/wasi/src/device.rs`.
  const DEVICE = '/dev/glovebox/scrypt';
  const ENOMEM = 48; // WASI's number
  const OPTIONS = [['N', 'cost', 16384], ['r', 'blockSize', 8], ['p', 'parallelization', 1], ['maxmem', 'maxmem', 32 << 20]];
  const keyLength = (name, length, most) => {
    if (typeof length !== 'number') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be of type number. Received ${$.received(length)}`);
    if (Number.isInteger(length) && length >= 0 && length <= most) return length;
    throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "${name}" is out of range. It must be >= 0 && <= ${most}. Received ${$.inspect(length, 0)}`);
  };
  const scryptSync = (password, salt, length, options = {}) => {
    const parts = [dataBytes(password, 'utf8', 'password'), dataBytes(salt, 'utf8', 'salt')];
    const size = keyLength('keylen', length, 2 ** 31 - 1);
    const [N, r, p, memory] = OPTIONS.map(([short, long, missing]) => {
      if (short !== long && options[short] !== undefined && options[long] !== undefined) throw coded(Error, 'ERR_CRYPTO_SCRYPT_INVALID_PARAMETER', 'Invalid scrypt parameter');
      const value = options[short] ?? options[long] ?? 0;
      if (typeof value !== 'number') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${short}" argument must be of type number. Received ${$.received(value)}`);
      return value || missing;
    });
    const refuse = (reason) => {
      throw coded(RangeError, 'ERR_CRYPTO_INVALID_SCRYPT_PARAMS', `Invalid scrypt params${reason}`);
    };
    const log = Math.log2(N);
    if (![log, r, p].every((value) => Number.isInteger(value) && value >= 1 && value < 2 ** 32)) refuse('');
    if (128 * r * (N + p + 2) > memory) refuse(': memory limit exceeded');
    if (size === 0) return Buffer.alloc(0);
    const request = new Uint8Array(20 + parts[0].length + parts[1].length);
    const header = new DataView(request.buffer);
    [log, r, p, size, parts[0].length].forEach((number, i) => header.setUint32(i * 4, number, true));
    request.set(parts[0], 20);
    request.set(parts[1], 20 + parts[0].length);
    const key = new Uint8Array(Math.min(size, 65536));
    const { os } = $;
    const device = os.open(DEVICE, os.O_RDWR);
    if (device < 0) refuse(': scrypt is unavailable');
    try {
      const written = os.write(device, request.buffer, 0, request.length);
      if (written === -ENOMEM) refuse(': not enough memory');
      if (written !== request.length) refuse(': N * r * p must be at most 524288, keylen at most 65536, and password and salt together less than 1 MiB');
      if (os.read(device, key.buffer, 0, key.length) !== size) refuse(': not enough memory');
    } finally {
      os.close(device);
    }
    return Buffer.from(key.buffer);
  };

  const hkdfSync = (digest, secret, salt, info, length) => {
    const known = ALGORITHMS[digestName(digest)];
    if (known === undefined) throw coded(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${digest}`);
    const [input, begin, label] = [dataBytes(secret, 'utf8', 'ikm'), dataBytes(salt, 'utf8', 'salt'), dataBytes(info, 'utf8', 'info')];
    const size = keyLength('length', length, 2 ** 32);
    if (size > 255 * known.length) throw coded(RangeError, 'ERR_CRYPTO_INVALID_KEYLEN', 'Invalid key length');
    const pad = padded(known, hmac(known, padded(known, begin), input));
    const out = new Uint8Array(size);
    // The previous block of the key, `info`, and the number of the block.
    const message = new Uint8Array(known.length + label.length + 1);
    message.set(label, known.length);
    for (let at = 0, block = 1; at < size; at += known.length, block++) {
      message[message.length - 1] = block;
      message.set(hmac(known, pad, block === 1 ? message.subarray(known.length) : message));
      out.set(message.subarray(0, Math.min(known.length, size - at)), at);
    }
    return out.buffer;
  };
  // Returns the form of a function with a callback, which follows at least `least` and at most `most` arguments.
  const withCallback = (name, derive, least, most = least) => ({
    [name](...args) {
      const count = args.length > most ? most : least;
      later(derive(...args.slice(0, count)), args[count]);
    },
  })[name];

  const web = {
    getRandomValues(array) {
      fillRandom(bytesOf(array));
      return array;
    },
    randomUUID() {
      const bytes = fillRandom(new Uint8Array(16));
      bytes[6] = (bytes[6] & 15) | 64;
      bytes[8] = (bytes[8] & 63) | 128;
      return $.encoding.toHex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    },
    subtle: {
      async digest(name, data) {
        const kind = algorithm(typeof name === 'string' ? name : name.name);
        return hashOf(kind, bytesOf(data)).buffer;
      },
    },
  };
  const crypto = {
    createHash,
    createHmac,
    hash: (name, data, encoding = 'hex') => createHash(name).update(data).digest(encoding),
    getHashes: () => Object.keys(ALGORITHMS),
    randomBytes(size, callback) {
      return nowOrLater(fillRandom(Buffer.alloc(size)), callback);
    },
    randomFillSync(buffer, offset = 0, size) {
      const bytes = bytesOf(buffer);
      fillRandom(bytes.subarray(offset, size === undefined ? undefined : offset + size));
      return buffer;
    },
    randomFill(buffer, ...rest) {
      const callback = rest.length > 2 || typeof rest.at(-1) === 'function' ? rest.pop() : undefined;
      later(crypto.randomFillSync(buffer, ...rest), callback);
    },
    randomInt,
    randomUUID: web.randomUUID,
    getRandomValues: web.getRandomValues,
    timingSafeEqual(a, b) {
      const [x, y] = [bytesOf(a), bytesOf(b)];
      if (x.length !== y.length) throw coded(RangeError, 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH', 'Input buffers must have the same byte length');
      let differs = 0;
      for (let i = 0; i < x.length; i++) differs |= x[i] ^ y[i];
      return differs === 0;
    },
    pbkdf2Sync,
    pbkdf2: withCallback('pbkdf2', pbkdf2Sync, 5),
    scryptSync,
    scrypt: withCallback('scrypt', scryptSync, 3, 4),
    hkdfSync,
    hkdf: withCallback('hkdf', hkdfSync, 5),
    subtle: web.subtle,
    webcrypto: web,
  };
  $.node.crypto = crypto;
  $.provide('crypto', web);
}
