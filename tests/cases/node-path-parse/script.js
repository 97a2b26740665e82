const path = require('path');
for (const whole of ['/a/b.c', 'a/b/', '.bashrc', 'a.b.c', '/', '', 'a.', '..', 'a/.b', 'a/b.tar.gz', '.', '/a/b/..', 'ünï/é.ü']) {
  console.log([whole, path.basename(whole), path.dirname(whole), path.extname(whole), path.normalize(whole)].join(' | '));
  console.log(path.parse(whole), path.isAbsolute(whole), path.format(path.parse(whole)));
}
console.log([path.basename('a.html', '.html'), path.basename('html', 'html'), path.basename('/a/html', 'html'), path.basename('a.HTML', '.html')]);
for (const [from, to] of [['/a/b/c', '/a/d'], ['/a', '/a'], ['/a/b', '/'], ['/', '/a'], ['/a/bc', '/a/b'], ['a', 'b']]) console.log(path.relative(from, to));
console.log(path.join('a', '..', 'b'), path.join('', ''), path.join('/a', '../..', 'b'), path.join('a', '', '/b/'), path.resolve('/a', 'b', '../c'));
