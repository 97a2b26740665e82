const items = Array.from({ length: 2000 }, (_, i) => (i * 7919) % 2000);
items.sort((a, b) => a - b);
console.log(items[0], items[1999], items.every((v, i) => i === 0 || items[i - 1] <= v));
