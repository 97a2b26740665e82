const fs = require('fs');
const calls = {
  exists: (file) => fs.existsSync(file),
  access: (file) => fs.accessSync(file),
  stat: (file) => fs.statSync(file),
  lstat: (file) => fs.lstatSync(file),
  readlink: (file) => fs.readlinkSync(file),
  readdir: (file) => fs.readdirSync(file),
  read: (file) => fs.readFileSync(file, 'utf8'),
  'read as bytes': (file) => fs.readFileSync(file),
  open: (file) => fs.openSync(file, 'r'),
  write: (file) => fs.writeFileSync(file, '1'),
  append: (file) => fs.appendFileSync(file, Buffer.from('1')),
  mkdir: (file) => fs.mkdirSync(file),
  'mkdir with parents': (file) => fs.mkdirSync(file, { recursive: true }),
  unlink: (file) => fs.unlinkSync(file),
  rmdir: (file) => fs.rmdirSync(file),
  'rmdir of a tree': (file) => fs.rmdirSync(file, { recursive: true }),
  rename: (file) => fs.renameSync(file, 'x'),
  copy: (file) => fs.copyFileSync(file, 'x'),
  utimes: (file) => fs.utimesSync(file, 0, 0),
};
const outcome = (call, file) => {
  try {
    return call(file);
  } catch (error) {
    return error.code;
  }
};
for (const name of Object.keys(calls)) {
  const seen = new Set(['/etc/passwd', '../etc/passwd', '/app/../etc/passwd', '/var/x'].map((file) => outcome(calls[name], file)));
  console.log(name, ...seen);
}
console.log('packages', outcome(calls.write, '/data_js/mine.js'));
