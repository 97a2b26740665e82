function f(n) {
  return f(n + 1) + 1;
}
try {
  f(0);
} catch (e) {
  console.log(e.name);
}
console.log("still here", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].reduce((a, b) => a + b));
