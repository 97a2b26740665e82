const tell = (what) => (error, origin) => console.log(what, error.code ?? error.message, origin);
process.on('uncaughtException', tell('caught'));
process.on('uncaughtExceptionMonitor', tell('monitored'));
process.on('exit', (code) => console.log('the end', code, process.exitCode));

const steps = [
  () => {
    throw new Error('in a timer');
  },
  () => queueMicrotask(() => {
    throw new Error('in a microtask');
  }),
  () => process.nextTick(() => {
    throw new Error('in a tick');
  }),
  () => void Promise.reject(new Error('of a promise')),
  () => void Promise.reject('no error'),
  () => {
    const rejected = Promise.reject(7);
    process.once('unhandledRejection', (reason, promise) => console.log('rejected', reason, promise === rejected));
  },
  () => {
    process.once('unhandledRejection', () => {
      throw new Error('of the listener');
    });
    Promise.reject(8);
  },
  () => Promise.reject(9).catch(() => console.log('still handled')),
];
steps.forEach((step, i) => setTimeout(step, 1 + i));
throw new Error('at the top');
