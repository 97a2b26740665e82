const { groupBy, sortBy, unique, chunk } = requireVendor('sandbox-utils');
console.log(groupBy([{ k: '__proto__', v: 1 }, { k: 'constructor', v: 2 }, { k: '__proto__', v: 3 }], 'k'), {}.v);
console.log(sortBy([{ n: 2 }, { n: undefined }, { n: 0 }, { n: null }, { n: 1 }], 'n').map(({ n }) => n), sortBy([3, 1, 2], (n) => n, true));
console.log(unique([1, '1', 1, NaN, NaN]), unique([{ a: 1, b: 1 }, { a: 1, b: 2 }], 'a'), chunk([1, 2, 3], 2), chunk([], 2));
for (const size of [0, -1, 1.5, NaN, 'x']) {
  try {
    chunk([1], size);
  } catch (error) {
    console.log(error.name, error.message);
  }
}
