const { ENOENT } = std.Error;
const EACCES = 2;
const names = { [ENOENT]: 'ENOENT', [EACCES]: 'EACCES' };
const calls = {
  stat: (path) => os.stat(path)[1],
  readdir: (path) => os.readdir(path)[1],
  open: (path) => -os.open(path, os.O_RDONLY),
  'open to write': (path) => -os.open(path, os.O_RDWR | os.O_CREAT),
  'std.open': (path) => {
    const error = {};
    return std.open(path, 'r', error) ?? error.errno;
  },
  mkdir: (path) => -os.mkdir(path),
  remove: (path) => -os.remove(path),
  rename: (path) => -os.rename(path, 'x'),
  utimes: (path) => -os.utimes(path, 0, 0),
};
for (const name of Object.keys(calls)) {
  const seen = new Set(['/etc/passwd', '/var', '../x', '/app/../etc/passwd'].map((path) => calls[name](path)));
  console.log(name, ...[...seen].map((errno) => names[errno] ?? errno));
}
