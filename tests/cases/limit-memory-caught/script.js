try {
  new ArrayBuffer(100_000_000);
} catch (e) {
  console.log("caught");
}
console.log("still", 0 + 1 + 2 + 3 + 4);
