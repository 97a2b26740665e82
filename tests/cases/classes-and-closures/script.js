class Animal {
  constructor(name) {
    this.name = name;
  }
  speak() {
    return `${this.name} says ${this.sound}`;
  }
}
class Dog extends Animal {
  get sound() {
    return "woof";
  }
}
const counter = () => {
  let n = 0;
  return () => ++n;
};
console.log(new Dog("Rex").speak());
const c = counter();
console.log(c(), c(), c());
