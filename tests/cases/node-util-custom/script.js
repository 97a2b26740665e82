const { inspect } = require('util');
class Money {
  constructor(amount) {
    this.amount = amount;
  }
  [inspect.custom](depth, options) {
    return `Money<${this.amount}>`;
  }
}
console.log(new Money(5), { price: new Money(7) }, [new Money(1)]);
console.log(`${inspect(new Money(2))}`);
