const data = new Uint8Array(10_000_000).fill(1);
console.log(data.length);
