const { setTimeout: sleep } = require('timers/promises');
const controller = new AbortController();
sleep(10000, 'never', { signal: controller.signal }).catch((error) => console.log(error.name));
controller.signal.addEventListener('abort', () => console.log('aborted'));
controller.abort();
console.log(controller.signal.aborted);
