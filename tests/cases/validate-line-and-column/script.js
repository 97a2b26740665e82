function f() {
  return 1;
}
let x = = 2;
