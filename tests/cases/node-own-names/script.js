const fs = require('fs');
const path = 'mine';
let readJson = (x) => x * 2;
class URL {}
function Buffer() {
  return 'no buffer';
}
var process = { env: 1 };
const crypto = 2;
const helpers = { readText: 1 };
const { readText } = helpers;
console.log(typeof fs.readFileSync, path, readJson(2), new URL() instanceof URL, Buffer(), process.env, crypto, readText);
