interface Item {
  readonly sku: string;
  name: string;
  count: number;
  reorder?: { at: number; amount: number };
}

type Level = 'out' | 'low' | 'fine';

declare function readJson<T>(file: string): T;

function level({ count, reorder }: Item): Level {
  if (count === 0) return 'out';
  return count < (reorder?.at ?? 0) ? 'low' : 'fine';
}

class Register<K, V> {
  private readonly groups: Map<K, V[]> = new Map();

  add(key: K, value: V): this {
    const group = this.groups.get(key);
    if (group) group.push(value);
    else this.groups.set(key, [value]);
    return this;
  }

  *[Symbol.iterator](): Generator<[K, V[]]> {
    yield* this.groups;
  }
}

const register = new Register<Level, Item>();
for (const item of readJson<Item[]>('stock.json')) register.add(level(item), item);

for (const [key, items] of register) {
  console.log(key.padEnd(5), items.map((item) => `${item.name} (${item.count})`).join(', '));
}
const orders = [...register]
  .flatMap(([, items]) => items)
  .filter((item) => level(item) !== 'fine')
  .map(({ sku, reorder }) => ({ sku, amount: reorder!.amount })) satisfies { sku: string; amount: number }[];
console.log(orders);
