const fs = require('fs');
fs.mkdirSync('lib');
fs.writeFileSync('lib/counter.js', 'let count = 0;\nexports.next = () => ++count;\nexports.file = __filename.split("/").slice(-2).join("/");\n');
fs.writeFileSync('lib/index.js', 'module.exports = { counter: require("./counter"), data: require("../data.json") };\n');
fs.writeFileSync('data.json', '{"a": [1, 2]}');
const lib = require('./lib');
const { next } = require('./lib/counter.js');
console.log(next(), lib.counter.next(), lib.counter.file, lib.data, lib.data === require('./data'));
console.log(typeof module, typeof exports, require.main === module, module.exports === exports);
