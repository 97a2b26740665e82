const util = require('util');
console.log(util.inspect({ a: { b: { c: { d: 1 } } } }, { depth: 0 }), util.inspect({ b: 1, a: 2 }, { sorted: true }));
console.log(util.inspect(new Map([['key', [1, 2]]]), { compact: false }));
console.log(util.format('%s is %d, %j', 'x', 1.5, { y: 1 }), util.format('a', 'b', 3));
console.log(util.isDeepStrictEqual({ a: [1, new Set([2])] }, { a: [1, new Set([2])] }), util.types.isDate(new Date()));
console.log(util.inspect('it\'s'), util.inspect([1, 2, 3, 4], { maxArrayLength: 2 }));
