const url = require('url');
const querystring = require('querystring');
console.log(url.fileURLToPath('file:///a%20b'), url.pathToFileURL('/a b#c').href, url.resolve('http://a.example/b/c', '../d'));
const { protocol, hostname, pathname, query } = url.parse('http://a.example/b?c=d', true);
console.log(protocol, hostname, pathname, query.c);
console.log(querystring.stringify({ a: [1, 2], b: 'x y' }), { ...querystring.parse('a=1&b=2&a=3') });
