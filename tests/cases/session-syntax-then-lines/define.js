function f() {
  throw new TypeError("deep");
}
