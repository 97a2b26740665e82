const fs = require('fs');
fs.mkdirSync('a/b/c', { recursive: true });
fs.writeFileSync('a/b/file.txt', '1');
fs.cpSync('a', 'copy', { recursive: true });
console.log(fs.readdirSync('a', { recursive: true }).sort());
console.log(fs.readdirSync('copy/b', { withFileTypes: true }).map((entry) => [entry.name, entry.isDirectory()]));
fs.rmSync('a', { recursive: true });
fs.renameSync('copy', 'kept');
console.log(fs.readdirSync('.').includes('kept'), fs.existsSync('a'));
