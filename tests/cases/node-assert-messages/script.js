const assert = require('assert');
const checks = [
  () => assert.strictEqual(1, 2), () => assert.equal(1, 2), () => assert.deepStrictEqual({ a: 1 }, { a: 2 }), () => assert.deepStrictEqual([1, 2, 3], [1, 2, 4]),
  () => assert.deepEqual({ a: 1 }, { a: 2 }), () => assert(0, 'own words'), () => assert.fail('boo'), () => assert.notStrictEqual(1, 1),
  () => assert.strictEqual('a'.repeat(50), 'b'.repeat(50)), () => assert.deepStrictEqual(new Set([1]), new Set([2])), () => assert.throws(() => {}),
  () => assert.doesNotThrow(() => { throw new Error('z'); }), () => assert.strictEqual(1, 2, new RangeError('own')), () => assert.strictEqual([1], [1]),
  () => assert.ifError(new Error('e')), () => assert.strictEqual(), () => assert.throws('x'),
  () => assert.throws(() => { throw new TypeError('x'); }, /y/), () => assert.throws(() => { throw new TypeError('x'); }, RangeError), () => assert.match('abc', /x/),
  () => assert.deepStrictEqual({ a: 1, b: { c: [1, 2, { d: 1 }] } }, { a: 1, b: { c: [1, 2, { d: 2 }] } }),
];
for (const check of checks) {
  try {
    check();
    console.log('nothing');
  } catch (error) {
    console.log(error.name, error.code, error.message);
  }
}
assert.deepStrictEqual(new Map([[1, { a: [NaN] }]]), new Map([[1, { a: [NaN] }]]));
assert.equal(null, undefined);
assert.deepEqual({ a: 1 }, { a: '1' });
assert.throws(() => { throw new TypeError('x'); }, { message: 'x', name: 'TypeError' });
