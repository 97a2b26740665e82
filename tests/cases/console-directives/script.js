class Point { constructor() { this.x = 1; } }
class Named { toString() { return 'named!'; } }
class Failure extends Error {}
console.log('%s|%s|%s', Point, new Point(), new Named());
console.log('%s|%s|%s', (a) => a + 1, new Date(0), Symbol('s'));
console.log('%s|%s|%s|%s|%s', 5n, -0, null, [1, [2, [3]]], /x/g);
console.log('%s|%s', new Number(3), new Map([['a', { b: { c: 1 } }]]));
console.log('%s', class Empty {}, '%o');
console.log('%d|%i|%f', '0x10', 5n, 'x', 'rest', { a: 1 });
console.log('%c styled', 'color: red', '%s');
console.log('%o', [1, { a: 2 }]);
console.log('%o|%o|%o', 'text', 5, new Set([{ a: 1 }]));
console.log('%o', { f() {}, deep: { a: { b: { c: { d: 1 } } } } });
console.log('%O', { deep: { a: { b: { c: { d: 1 } } } } });
console.log(Point.prototype, Failure.prototype instanceof Error, Object.prototype);
