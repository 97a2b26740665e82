const o = { a: null };
console.log(o?.a?.b, o.a ?? 7);
const [head, ...tail] = [1, 2, 3];
console.log(head, JSON.stringify(tail));
class C {
  #p = 5;
  get p() {
    return this.#p;
  }
}
console.log(new C().p);
outer: for (let i = 0; ; i++) for (let j = 0; ; j++) if (i * j > 10) { console.log(i * j); break outer; } else if (j > 3) continue outer;
console.log(new Proxy({}, { get: (_, k) => "proxied " + String(k) }).a);
console.log(new WeakRef(o).deref() === o);
console.log([1, 2, 3].toReversed().join());
