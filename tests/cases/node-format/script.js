const { format } = require('util');
const cyclic = {};
cyclic.self = cyclic;
const all = [
  ['%s %d %i %f %j %O %%', 'a', 1.5, 2.9, '3.1', { a: 1 }, { c: 1 }], ['%s'], ['%d', 'x'], ['a', 'b', { c: 1 }], ['%s', null], ['%s', { a: { b: { c: 1 } } }],
  ['%s', Symbol('a')], ['%d', 10n], ['%i', '42.9px'], ['%c', 'css', 'after'], ['%x', 1], [1, 2, '3'], ['%s', -0], ['%j', cyclic], ['100%', 5],
  ['%s', [1, [2, [3]]]], ['%s', Object.create(null)], ['%d', ''], ['%f', 'abc'], [], [undefined], ['%s', undefined, null], ['%s', { toString: () => 'own' }],
];
for (const args of all) console.log(JSON.stringify(format(...args)));
