const fs = require('fs');
fs.writeFileSync('kept.txt', 'x');
const calls = {
  exists: () => fs.existsSync(''),
  stat: () => fs.statSync(''),
  lstat: () => fs.lstatSync(''),
  readdir: () => fs.readdirSync(''),
  access: () => fs.accessSync(''),
  open: () => fs.openSync('', 'r'),
  read: () => fs.readFileSync(''),
  write: () => fs.writeFileSync('', 'x'),
  mkdir: () => fs.mkdirSync(''),
  'mkdir of parents': () => fs.mkdirSync('', { recursive: true }),
  rmdir: () => fs.rmdirSync(''),
  unlink: () => fs.unlinkSync(''),
  rename: () => fs.renameSync('', 'other'),
  copy: () => fs.copyFileSync('kept.txt', ''),
  rm: () => fs.rmSync('', { recursive: true }),
  'rm by force': () => fs.rmSync('', { recursive: true, force: true }),
};
for (const [name, call] of Object.entries(calls)) {
  try {
    console.log(name, call());
  } catch (error) {
    console.log(name, error.code);
  }
}
console.log(os.stat('')[1] === std.Error.ENOENT, os.readdir('')[1] === std.Error.ENOENT, std.open('', 'w'));
console.log(fs.readdirSync('.'), fs.readdirSync('./'), fs.readdirSync('/app'));
