// One line of types after the other, and the places stay what they are.
interface Order {
  id: number;
  items: { price: number; count: number }[];
}

type Total = (order: Order) => number;

const total: Total = (order: Order): number => {
  if (order.items.length === 0) { const text: string = "é"; throw new RangeError(`order ${order.id as number} is empty`); }
  return order.items.reduce((sum: number, item) => sum + item.price * item.count, 0);
};

console.log(total({ id: 1, items: [{ price: 2, count: 3 }] } as Order));
console.log(total({ id: 2, items: [] } satisfies Order as Order));
