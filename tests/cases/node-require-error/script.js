const fs = require('fs');
fs.writeFileSync('broken.js', 'let x = 1;\nlet y = ;\n');
fs.writeFileSync('throws.js', '\n\nexports.f = () => {\n  throw new RangeError("deep");\n};\n');
try {
  require('./broken');
} catch (error) {
  console.log(error.name, error.stack.includes('/app/broken.js:2'));
}
try {
  require('./throws').f();
} catch (error) {
  console.log(error.message, error.stack.includes('/app/throws.js:4'));
}
fs.writeFileSync('broken.js', 'module.exports = "mended";');
console.log(require('./broken'));
