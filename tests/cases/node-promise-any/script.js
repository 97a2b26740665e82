(async () => {
  await Promise.any([Promise.reject(1), Promise.reject(2)]).catch((error) => console.log(error.name, error.message, error.errors));
  await Promise.any([]).catch((error) => console.log(error instanceof AggregateError, error.message, Object.keys(error)));
  console.log(await Promise.any([Promise.reject(1), Promise.resolve(3)]), new AggregateError([]).message === '');
  class Job extends Promise {}
  console.log(Job.any([1]) instanceof Job, Promise.any.name, Promise.any.length);
})();
