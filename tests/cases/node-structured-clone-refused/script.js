for (const value of [() => 1, { a: Symbol('x') }]) {
  try {
    structuredClone(value);
  } catch (error) {
    console.log(error.name, error.code, error.message);
  }
}
class Point {
  x = 1;
}
console.log(structuredClone(new Point()), structuredClone({ get a() { return 1; } }), Object.keys(structuredClone(JSON.parse('{"__proto__": {"x": 1}}'))));
const shared = {};
const copies = structuredClone([shared, shared]);
console.log(copies[0] === copies[1], copies[0] !== shared, structuredClone(new RangeError('q')) instanceof RangeError);
console.log(structuredClone({ a: new Date(0), b: new Map([[1, new Set([2])]]), c: [1, , 2], d: /x/gi, e: undefined, f: 1n, g: new Uint8Array([1]) }));
