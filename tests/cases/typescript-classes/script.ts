abstract class Animal<T extends string = string> {
  static count: number = 0;
  readonly name: T;
  private age?: number;
  protected legs!: number;
  declare kind: string;
  #secret: number = 42;
  [key: `x-${string}`]: unknown;

  constructor(name: T);
  constructor(name: T, age?: number) {
    this.name = name;
    this.age = age;
    Animal.count++;
  }

  abstract sound(): string;
  get secret(): number { return this.#secret; }
  public describe(this: Animal, loud: boolean = false): string {
    return `${this.name} says ${loud ? this.sound().toUpperCase() : this.sound()}`;
  }
}

class Dog extends Animal<"Rex"> implements Iterable<string> {
  override sound(): string { return "woof"; }
  *[Symbol.iterator](): Iterator<string> { yield this.name; }
}

const dog = new Dog("Rex");
console.log(dog.describe(true), dog.secret, [...dog], Animal.count);
console.log(Object.keys(dog).join());

function pad(text: string): string;
function pad(text: number): string;
function pad(text: string | number): string { return String(text).padStart(4); }
function isText(value: unknown): value is string { return typeof value === "string"; }
console.log(pad(7), pad("ab"), isText(1));
