async function main() {
  console.log("start");
  await null;
  throw new Error("in async");
}
main();
