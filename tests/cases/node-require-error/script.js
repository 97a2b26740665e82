const fs = require('fs');
// QuickJS-NG 0.11, which alone has this flag, cannot name what is compiled.
const named = (file) => ('READ_OBJ_SAB' in bjson ? '<input>' : file);
fs.writeFileSync('broken.js', 'let x = 1;\nlet y = ;\n');
fs.writeFileSync('throws.js', '\n\nexports.f = () => {\n  throw new RangeError("deep");\n};\n');
try {
  require('./broken');
} catch (error) {
  console.log(error.name, error.stack.includes(`${named('/app/broken.js')}:2`));
}
try {
  require('./throws').f();
} catch (error) {
  console.log(error.message, error.stack.includes(`${named('/app/throws.js')}:4`));
}
fs.writeFileSync('broken.js', 'module.exports = "mended";');
console.log(require('./broken'));
