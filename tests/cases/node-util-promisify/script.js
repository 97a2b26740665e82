const { promisify, callbackify, inherits } = require('util');
const add = (a, b, callback) => setTimeout(() => (a < 0 ? callback(new Error('negative')) : callback(null, a + b)), 1);
(async () => {
  console.log(await promisify(add)(1, 2));
  await promisify(add)(-1, 2).catch((error) => console.log(error.message));
  callbackify(async (x) => x * 2)(21, (error, value) => console.log(error, value));
})();
function Base() {}
function Derived() {}
inherits(Derived, Base);
console.log(new Derived() instanceof Base);
