function* fibs() {
  let [a, b] = [0, 1];
  for (;;) {
    yield a;
    [a, b] = [b, a + b];
  }
}
const g = fibs();
console.log(Array.from({ length: 8 }, () => g.next().value).join(" "));
