const fs = require('node:fs');
fs.writeFileSync('bytes', Uint8Array.of(0, 128, 255));
console.log(fs.readFileSync('bytes'), fs.readFileSync('bytes', 'base64'), fs.readFileSync('bytes', 'hex'));
