const path = require('path');
console.log(path.join('a', '..', '/b', './c.txt'), path.normalize('/a/./b//../c/'), path.resolve('/x', 'y', '../z'));
console.log(path.dirname('/a/b/c.tar.gz'), path.basename('/a/b/c.tar.gz', '.gz'), path.extname('c.tar.gz'));
console.log(path.parse('/home/user/file.txt'), path.relative('/a/b/c', '/a/d'), path.isAbsolute('x'));
console.log(path.format({ dir: '/a', name: 'b', ext: '.c' }), path.sep, path.posix === path);
