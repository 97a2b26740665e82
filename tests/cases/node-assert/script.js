const assert = require('assert');
assert(true);
assert.strictEqual(1, 1);
assert.deepStrictEqual({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] });
assert.throws(() => JSON.parse('{'), SyntaxError);
const attempt = (action) => {
  try {
    action();
  } catch (error) {
    console.log(error.name, error.code, error.message);
  }
};
attempt(() => assert.strictEqual(1, 2));
attempt(() => assert.deepStrictEqual({ a: 1, b: [1, 2] }, { a: 1, b: [1, 3] }));
attempt(() => assert.ok(0, 'zero is false'));
attempt(() => assert.throws(() => {}));
attempt(() => assert.throws(() => { throw new Error('one'); }, /two/));
attempt(() => assert.match('abc', /x/));
attempt(() => assert.fail('stop'));
