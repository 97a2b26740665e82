const { readFileSync } = require('fs');
Array.prototype[Symbol.iterator] = null;
Object.prototype.get = () => 1;
JSON.parse = () => 'broken';
require.cache = null;
String.prototype.split = () => { throw new Error('mine'); };
try {
  require('url');
} catch {
  // Where it is compiled only now.
}
console.log(typeof readFileSync, require.cache);
