const fs = require('fs');
const { devNull } = require('os');

console.log(`${fs.readFileSync(devNull, 'utf8')}${fs.readFileSync(devNull)}empty`);
const fd = fs.openSync(devNull, 'w');
const chunk = new Uint8Array(1e6);
let written = 0;
for (let i = 0; i < 100; i++) written += fs.writeSync(fd, chunk);
fs.closeSync(fd);
console.log(written, 'written');
fs.writeFileSync(devNull, 'text');
fs.appendFileSync(devNull, 'more');
fs.copyFileSync(devNull, 'copy');
fs.unlinkSync('copy');
console.log(fs.statSync(devNull).isCharacterDevice() && std.loadFile(devNull) === '', 'a device');
try {
  fs.unlinkSync(devNull);
} catch {
  console.log('not removed');
}
const file = std.open(devNull, 'r+');
console.log(os.isatty(file.fileno()), 'no terminal');
file.close();
