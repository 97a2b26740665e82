'use strict';
// The hash algorithms of `require('crypto')`.
{
  const $ = $glovebox;

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

  // SHA-3 and SHAKE. A lane is a pair of words, low first. The tables list the rotation and the position of each lane in
  // the order in which a round moves them, and the constants of the rounds.
  const ROTATIONS = new Uint8Array(24);
  const POSITIONS = new Uint8Array(24);
  const ROUNDS = new Int32Array(48);
  for (let i = 0, x = 1, y = 0; i < 24; i++) {
    ROTATIONS[i] = ((i + 1) * (i + 2)) / 2;
    [x, y] = [y, (2 * x + 3 * y) % 5];
    POSITIONS[i] = 2 * (x + 5 * y);
  }
  for (let i = 0, bits = 1; i < 7 * 24; i++) {
    const at = 2 ** (i % 7) - 1;
    if (bits & 1) ROUNDS[2 * Math.floor(i / 7) + (at >> 5)] |= 1 << (at & 31);
    bits = (bits << 1) ^ ((bits >> 7) * 0x171);
  }
  const five = new Int32Array(10);
  const keccak = (state, words) => {
    for (let i = 0; i < words.length; i++) state[i] ^= words[i];
    for (let round = 0; round < 48; round += 2) {
      for (let x = 0; x < 10; x++) five[x] = state[x] ^ state[x + 10] ^ state[x + 20] ^ state[x + 30] ^ state[x + 40];
      for (let x = 0; x < 10; x += 2) {
        const l = five[(x + 2) % 10];
        const h = five[(x + 3) % 10];
        const addedLow = five[(x + 8) % 10] ^ ((l << 1) | (h >>> 31));
        const addedHigh = five[(x + 9) % 10] ^ ((h << 1) | (l >>> 31));
        for (let i = x; i < 50; i += 10) {
          state[i] ^= addedLow;
          state[i + 1] ^= addedHigh;
        }
      }
      let l = state[2];
      let h = state[3];
      for (let i = 0; i < 24; i++) {
        const at = POSITIONS[i];
        const by = ROTATIONS[i];
        const a = by & 32 ? h : l;
        const b = by & 32 ? l : h;
        l = state[at];
        h = state[at + 1];
        // Shifts use only the low five bits of `by`.
        state[at] = (a << by) | (b >>> -by);
        state[at + 1] = (b << by) | (a >>> -by);
      }
      for (let y = 0; y < 50; y += 10) {
        for (let x = 0; x < 10; x++) five[x] = state[y + x];
        for (let x = 0; x < 10; x++) state[y + x] ^= ~five[(x + 2) % 10] & five[(x + 4) % 10];
      }
      state[0] ^= ROUNDS[round];
      state[1] ^= ROUNDS[round + 1];
    }
  };
  const sponge = (block, length, suffix) => ({ step: keccak, start: new Int32Array(50), block, length, isLittle: true, suffix });
  const sha3 = (length) => sponge(200 - 2 * length, length, 0x06);
  const shake = (length) => ({ ...sponge(200 - 2 * length, length, 0x1f), isExtendable: true });

  const ALGORITHMS = {
    __proto__: null,
    md5: { step: md5, start: H160.slice(0, 4), block: 64, length: 16, isLittle: true },
    sha1: { step: sha1, start: H160, block: 64, length: 20 },
    sha224: { step: sha256, start: H224, block: 64, length: 28 },
    sha256: { step: sha256, start: H256, block: 64, length: 32 },
    sha384: { step: sha512, start: H384, block: 128, length: 48 },
    sha512: { step: sha512, start: H512, block: 128, length: 64 },
    'sha3-224': sha3(28),
    'sha3-256': sha3(32),
    'sha3-384': sha3(48),
    'sha3-512': sha3(64),
    shake128: { ...shake(16), block: 168 },
    shake256: { ...shake(32), block: 136 },
  };

  // A hash in progress: the bytes of an unfinished block, and the state after the earlier blocks.
  class Running {
    constructor({ step, start, block, length, isLittle = false, suffix, isExtendable }) {
      Object.assign(this, { step, block, length, isLittle, suffix, isExtendable, state: Int32Array.from(start), rest: new Uint8Array(block), filled: 0, total: 0 });
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
    end(length = this.length) {
      if (this.suffix !== undefined) return this.squeeze(length);
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
    squeeze(length) {
      this.rest.fill(0, this.filled);
      this.rest[this.filled] ^= this.suffix;
      this.rest[this.block - 1] ^= 0x80;
      this.take();
      const out = new Uint8Array(length);
      const view = new DataView(new ArrayBuffer(this.block));
      for (let at = 0; at < length; at += this.block) {
        if (at > 0) this.step(this.state, []);
        for (let i = 0; i < this.block; i += 4) view.setInt32(i, this.state[i / 4], true);
        out.set(new Uint8Array(view.buffer, 0, Math.min(this.block, length - at)), at);
      }
      return out;
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

  $.digests = { ALGORITHMS, Running, hashOf };
}
