std.gc();
console.log(typeof new WeakMap([[{}, 1]]));
