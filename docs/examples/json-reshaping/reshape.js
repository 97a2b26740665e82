const orders = readJson('orders.json');

const customers = {};
for (const { id, customer, items } of orders) {
  const entry = (customers[customer.name] ??= { city: customer.city ?? 'unknown', orders: [], total: 0, bySku: {} });
  entry.orders.push(id);
  for (const { sku, qty, price } of items) {
    entry.total += qty * price;
    entry.bySku[sku] = (entry.bySku[sku] ?? 0) + qty;
  }
}

const list = Object.entries(customers)
  .map(([name, entry]) => ({ name, ...entry }))
  .sort((a, b) => b.total - a.total);
writeJson('customers.json', list);
console.log(JSON.stringify(list, null, 1).replace(/\n {3,}/g, ' ').replace(/\n {2}([\]}])/g, ' $1'));
