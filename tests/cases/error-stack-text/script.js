class PriceError extends Error {
  constructor(message, options) {
    super(message, options);
    Error.captureStackTrace(this, PriceError);
    this.name = 'PriceError';
  }
}
const first = (error) => error.stack.split('\n')[0];
const load = () => { throw new TypeError('no file'); };
try { load(); } catch (error) { console.log(first(error)); }
const price = new PriceError('no price', { cause: new RangeError('too low') });
console.log(first(price));
console.log(first(price.cause));
console.log(new Error('two\nlines').stack.split('\n').slice(0, 2).join('|'));
const holder = { name: 'Holder', message: 'here' };
Error.captureStackTrace(holder);
console.log(first(holder));
const heads = [];
for (const fail of [() => null.x, () => missing, () => JSON.parse('{'), () => new Array(-1), () => decodeURIComponent('%')]) {
  try { fail(); } catch (error) { heads.push(error.stack.startsWith(`${error.name}: ${error.message}\n`)); }
}
console.log(...heads);
console.log(price.stack.split('\n')[1].startsWith('    at '), require('util').inspect(price).split('PriceError: no price').length - 1);
price.stack = 'mine';
console.log(price.stack);
