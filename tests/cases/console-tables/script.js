console.table([{ a: 1, b: 'x' }, { a: 2, c: true }]);
console.table(new Map([['k', 1]]));
console.table('just text');
console.log('%s', class Point {}, '%o');
console.table(new Set(['x', 2]));
console.table(['a', { b: 1 }]);
console.table([[1, 2], [3]]);
console.table({ one: { n: 1 }, two: { n: 2 } }, ['n']);
console.table([]);
console.table(5);
console.table(new Map([['k', { v: 1 }]]));
console.table(['日本', 'é']);
console.table([{ a: [1, 2, 3, 4, 5] }, { a: { x: 1, y: 2, z: 3 } }]);
console.table([1, 'x'], ['n']);
try {
  console.table([1], 'n');
} catch (error) {
  console.log(error.name);
}
