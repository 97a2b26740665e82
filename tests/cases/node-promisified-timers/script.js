const { promisify } = require('util');
const { setTimeout: sleep } = require('timers/promises');
(async () => {
  console.log(await promisify(setTimeout)(1, 'a'), await promisify(setImmediate)('b'), await sleep(1, 'c'));
  const controller = new AbortController();
  controller.abort();
  await sleep(1000, 'd', { signal: controller.signal }).catch((error) => console.log(error.name, error.message));
})();
