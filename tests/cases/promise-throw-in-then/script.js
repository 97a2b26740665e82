Promise.resolve(1).then(() => {
  throw new RangeError("in then");
});
