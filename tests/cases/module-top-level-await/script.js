console.log(1);
const two = await new Promise((resolve) => setTimeout(() => resolve(2), 5));
console.log(two);
for await (const x of (async function* () { yield 3; })()) console.log(x);
