const ref = new WeakRef({ a: 1 });
console.log(ref.deref()?.a, ref instanceof WeakRef, typeof FinalizationRegistry);
const cache = new Map([['k', new WeakRef({ n: 2 })]]);
console.log(cache.get('k').deref()?.n);
class Named extends WeakRef {}
console.log(new Named({}) instanceof Named, WeakRef.name, WeakRef.length, WeakRef.prototype.constructor === WeakRef);
try {
  WeakRef({});
} catch (error) {
  console.log(error.name);
}
