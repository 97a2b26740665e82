(async () => {
  console.log("a");
  await null;
  console.log("b");
})().then(() => console.log("d"));
console.log("c");
