try {
  JSON.parse("[".repeat(100000) + "]".repeat(100000));
  console.log("parsed");
} catch (e) {
  console.log(e.name);
}
