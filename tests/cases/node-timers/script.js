const { setTimeout: sleep } = require('timers/promises');
setTimeout((a, b) => console.log('timeout', a, b), 20, 1, 2);
setImmediate(() => console.log('immediate'));
queueMicrotask(() => console.log('microtask'));
let count = 0;
const id = setInterval(() => {
  console.log('interval', ++count);
  if (count === 3) clearInterval(id);
}, 40);
clearTimeout(setTimeout(() => console.log('never'), 1));
sleep(30, 'slept').then(console.log);
console.log('first');
