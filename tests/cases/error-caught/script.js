try {
  throw 1;
} catch (e) {
  console.log("caught", e);
} finally {
  console.log("finally");
}
