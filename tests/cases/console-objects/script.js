console.log({ a: 1, nested: { b: "deep" } });
console.log([7, 8, [9]]);
console.log(new Map([["key", 1]]), new Set([2]));
