'use strict';
// `require('crypto')`: hashes, random values and comparisons. Ciphers, keys and signatures are not available.
{
  const $ = $glovebox;
  const { coded } = $;
  const { bytesOf } = $.encoding;
  const { ALGORITHMS, Running, hashOf } = $.digests;

  const find = (name, argument) => {
    if (typeof name !== 'string') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${argument}" argument must be of type string. Received ${$.received(name)}`);
    return ALGORITHMS[name.toLowerCase().replace(/^rsa-/, '').replace(/^sha-/, 'sha')];
  };
  const algorithm = (name) => {
    const known = find(name, 'algorithm');
    if (known !== undefined) return known;
    throw coded(Error, 'ERR_CRYPTO_INVALID_DIGEST', `Digest method not supported: ${name}; supported: ${Object.keys(ALGORITHMS).join(', ')}`);
  };
  // Returns the algorithm for a function with a key, which needs a digest of fixed length.
  const keyedAlgorithm = (name, argument = 'digest') => {
    const known = find(name, argument);
    if (known !== undefined && !known.isExtendable) return known;
    throw coded(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${name}`);
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

  const MOST_OUTPUT = 2 ** 32 - 1;
  // Returns the length of a digest, which a script may choose for SHAKE.
  const outputLength = (running, length = running.length) => {
    if (typeof length !== 'number') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', `The "options.outputLength" property must be of type number. Received ${$.received(length)}`);
    if (!(length >= 0 && length <= MOST_OUTPUT && Number.isInteger(length))) {
      const range = Number.isInteger(length) ? `>= 0 && <= ${MOST_OUTPUT}` : 'an integer';
      throw coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "options.outputLength" is out of range. It must be ${range}. Received ${$.inspect(length, 0)}`);
    }
    if (length !== running.length && !running.isExtendable) {
      throw coded(Error, 'ERR_OSSL_EVP_NOT_XOF_OR_INVALID_LENGTH', 'error:030000B2:digital envelope routines::not XOF or invalid length');
    }
    return length;
  };
  class Hash {
    #running;
    #finish;
    #length;
    constructor(running, finish, length) {
      this.#running = running;
      this.#finish = finish;
      this.#length = outputLength(running, length);
    }
    update(data, encoding) {
      if (this.#running === undefined) throw coded(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
      this.#running.add(dataBytes(data, encoding));
      return this;
    }
    digest(encoding) {
      if (this.#running === undefined) throw coded(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
      const bytes = this.#finish(this.#running.end(this.#length));
      this.#running = undefined;
      return shownAs(bytes, encoding);
    }
    copy(options) {
      if (this.#running === undefined) throw coded(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
      return new Hash(this.#running.copy(), this.#finish, options?.outputLength);
    }
  }
  class Hmac extends Hash {}

  const createHash = (name, options) => new Hash(new Running(algorithm(name)), (bytes) => bytes, options?.outputLength);
  const padded = (kind, key) => {
    const long = dataBytes(key, 'utf8', 'key');
    const pad = new Uint8Array(kind.block);
    pad.set(long.length > kind.block ? hashOf(kind, long) : long);
    return pad;
  };
  const createHmac = (name, key) => {
    const kind = keyedAlgorithm(name, 'hmac');
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
    const kind = keyedAlgorithm(digest);
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
    const known = keyedAlgorithm(digest);
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
