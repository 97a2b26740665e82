const answer = (async () => 42)();
const failed = Promise.reject(7);
failed.catch(() => {});
class Job extends Promise {}
console.log(answer, new Promise(() => {}), failed, Promise.resolve());
console.log({ job: Promise.resolve({ a: 1 }), waiting: new Promise(() => {}) }, [failed], Job.resolve([1]));
console.log(require('util').inspect(Promise.resolve('text')), `${Promise.resolve(1)}`, require('util').format('%s', Promise.resolve(2)));
const own = Promise.resolve(1);
own.name = 'x';
const cycle = Promise.resolve().then(() => ({ cycle }));
cycle.then(() => console.log(own, cycle));
