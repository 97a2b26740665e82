const fs = require('fs');
fs.writeFileSync('a.js', 'exports.early = 1; const b = require("./b"); exports.late = b.seen;');
fs.writeFileSync('b.js', 'const a = require("./a"); exports.seen = Object.keys(a); exports.same = () => require("./a") === a;');
const a = require('./a');
console.log(a, require('./b').same());
