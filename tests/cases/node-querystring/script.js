const querystring = require('querystring');
console.log(querystring.parse('a=1&b=2&a=3&c&d=%20+x'));
console.log(querystring.parse('constructor=1&toString=2').toString, {}.x);
console.log(querystring.stringify({ a: [1, 2], b: 'x y&', c: true, d: null, e: undefined, f: {} }));
console.log(querystring.escape('a b&'), querystring.unescape('a%20b'), querystring.parse('x:1;y:2', ';', ':'));
