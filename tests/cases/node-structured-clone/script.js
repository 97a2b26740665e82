const original = { when: new Date(0), map: new Map([[1, { a: [1, 2] }]]), bytes: Uint8Array.of(1, 2), set: new Set(['x']), nothing: undefined };
original.self = original;
const copy = structuredClone(original);
console.log(copy.self === copy, copy !== original, copy.map.get(1) !== original.map.get(1), copy.when.getTime(), copy.bytes, copy.set);
for (const refused of [() => 1, Symbol('s'), { f() {} }]) {
  try {
    structuredClone(refused);
  } catch (error) {
    console.log(error.name);
  }
}
