var x = 41;
const math = Math;
function hello(name) {
  return "hello " + name;
}
class Box {
  constructor(v) {
    this.v = v;
  }
}
let box = new Box("Ann");
console.log("one");
