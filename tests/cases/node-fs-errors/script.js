const fs = require('fs');
const attempt = (action) => {
  try {
    console.log(action());
  } catch (error) {
    console.log(error.code, error.syscall, error.message);
  }
};
fs.mkdirSync('dir');
fs.writeFileSync('dir/file', '');
attempt(() => fs.readFileSync('missing.txt', 'utf8'));
attempt(() => fs.readFileSync('dir', 'utf8'));
attempt(() => fs.writeFileSync('missing/file', ''));
attempt(() => fs.mkdirSync('dir'));
attempt(() => fs.rmdirSync('dir'));
attempt(() => fs.unlinkSync('missing.txt'));
attempt(() => fs.renameSync('missing.txt', 'other'));
attempt(() => fs.copyFileSync('missing.txt', 'other'));
attempt(() => fs.readdirSync('dir/file'));
attempt(() => fs.accessSync('missing.txt'));
attempt(() => fs.writeFileSync('dir/file', 'x', { flag: 'wx' }));
attempt(() => fs.statSync('missing.txt', { throwIfNoEntry: false }));
