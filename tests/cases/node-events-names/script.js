const EventEmitter = require('events');
const emitter = new EventEmitter();
emitter.on('__proto__', (value) => console.log('called', value));
console.log(emitter.emit('__proto__', 1), emitter.emit('constructor'), emitter.emit('toString'), emitter.listenerCount('hasOwnProperty'));
console.log(emitter.eventNames(), {}.polluted);
emitter.once('constructor', () => console.log('once'));
console.log(emitter.emit('constructor'), emitter.emit('constructor'));
