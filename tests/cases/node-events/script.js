const EventEmitter = require('events');
class Shop extends EventEmitter {}
const shop = new Shop();
shop.on('sale', (what, price) => console.log('sold', what, price));
shop.once('sale', (what) => console.log('first', what));
shop.prependListener('sale', () => console.log('before'));
console.log(shop.emit('sale', 'tea', 3), shop.emit('sale', 'cup', 5), shop.emit('other'));
console.log(shop.listenerCount('sale'), shop.eventNames());
try {
  shop.emit('error', new Error('unheard'));
} catch (error) {
  console.log(error.message);
}
EventEmitter.once(shop, 'later').then(([value]) => console.log('later', value));
shop.emit('later', 1);
