const assert = require('assert/strict');
try {
  assert.equal(1, '1');
} catch (error) {
  console.log(error.message);
}
assert.rejects(async () => { throw new TypeError('no'); }, TypeError).then(() => console.log('rejected'));
assert.rejects(async () => {}).catch((error) => console.log(error.message));
assert.doesNotThrow(() => {});
assert.notDeepEqual([1], [2]);
