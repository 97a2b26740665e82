type Order = { id: number; items?: string[] };

function describe(order: Order): string {
  return `${order.id}: ${order.items!.join(", ")}`;
}

console.log(describe({ id: 1, items: ["pen", "paper"] }));
console.log(describe({ id: 2 }));
