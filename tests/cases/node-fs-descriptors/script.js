const fs = require('fs');
const fd = fs.openSync('file', 'w+');
fs.writeSync(fd, 'hello world');
const piece = Buffer.alloc(5);
console.log(fs.readSync(fd, piece, 0, 5, 6), piece.toString());
fs.writeSync(fd, 'J', 0);
fs.closeSync(fd);
fs.truncateSync('file', 5);
console.log(fs.readFileSync('file', 'utf8'));
