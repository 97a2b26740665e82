const crypto = require('crypto');
console.log(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()));
console.log(crypto.randomBytes(8).length, crypto.randomUUID() === crypto.randomUUID());
const drawn = Array.from({ length: 200 }, () => crypto.randomInt(3));
console.log([0, 1, 2].every((value) => drawn.includes(value)), drawn.every((value) => value < 3));
console.log(globalThis.crypto.getRandomValues(new Uint8Array(4)).length);
try {
  crypto.createHash('sha3');
} catch (error) {
  console.log(error.message.startsWith('Digest method not supported'));
}
