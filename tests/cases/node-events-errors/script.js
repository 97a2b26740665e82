const t = (name, action) => {
  try {
    console.log(name, action());
  } catch (error) {
    console.log(name, error.name, error.code ?? '', error.message);
  }
};

const EventEmitter = require('events');
const emitter = new EventEmitter();
t('error', () => emitter.emit('error', new RangeError('boom')));
t('text', () => emitter.emit('error', 'text'));
t('listener', () => emitter.on('a', 5));
emitter.on('error', (error) => console.log('handled', error.message));
t('handled', () => emitter.emit('error', new Error('again')));
class Mine extends EventEmitter {}
const mine = new Mine();
const order = [];
mine.on('a', () => order.push('second'));
mine.prependListener('a', () => order.push('first'));
mine.once('a', function () {
  order.push(this === mine);
});
mine.emit('a');
mine.emit('a');
console.log(order, mine.listenerCount('a'), mine.getMaxListeners());
EventEmitter.once(mine, 'later').then((values) => console.log(values));
mine.emit('later', 1, 2);
