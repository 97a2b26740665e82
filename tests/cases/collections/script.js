const count = new Map();
for (const c of "abcaba") count.set(c, (count.get(c) ?? 0) + 1);
console.log([...count].sort((x, y) => y[1] - x[1]).map(([k, v]) => `${k}:${v}`).join(" "));
console.log([...new Set([3, 1, 2, 3])].sort().join());
