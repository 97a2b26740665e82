const fs = require('fs');
fs.writeFileSync('/dev/stdout', 'to the stream\n');
console.log(fs.readFileSync('/dev/fd/0', 'utf8').split('\n'));
