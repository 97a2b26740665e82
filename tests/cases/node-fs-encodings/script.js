const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const fs = require('fs');
fs.writeFileSync('a.txt', 'héllo\n');
for (const encoding of ['utf8', 'utf-8', 'UTF8', 'latin1', 'ascii', 'base64', 'base64url', 'hex', 'utf16le', 'ucs2', 'binary', null, undefined, 'bogus']) {
  t(encoding, () => fs.readFileSync('a.txt', encoding));
}
for (const [text, encoding] of [['68656c6c6f', 'hex'], ['aGVsbG8=', 'base64'], ['é', 'latin1'], ['é', 'utf16le']]) {
  fs.writeFileSync('b', text, encoding);
  console.log(encoding, fs.readFileSync('b'));
}
fs.writeFileSync('b', new Uint16Array([65, 66]));
console.log(fs.readFileSync('b'));
