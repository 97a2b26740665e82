console.log("before");
function outer() {
  return inner();
}
function inner() {
  return (void 0)();
}
outer();
