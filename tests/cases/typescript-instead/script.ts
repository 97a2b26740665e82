const Color = { Red: 0, Green: 1 } as const;
type Color = (typeof Color)[keyof typeof Color];

class Account {
  private balance: number;
  constructor(balance: number) { this.balance = balance; }
  isOver(limit: number): boolean { return this.balance > limit; }
}

const data: unknown = JSON.parse('{"color": 1}');
const { color } = data as { color: Color };
console.log(color === Color.Green, new Account(5).isOver(3));
